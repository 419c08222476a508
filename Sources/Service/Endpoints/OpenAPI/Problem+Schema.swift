import HTTPServer
import Schemas

extension Problem {
    /// The schema of `application/problem+json` (RFC 9457) with Kakao's members.
    static let schema = Schema.object(
        [
            ("type", Schema.text().described("`urn:kakao-push-server:error:` and the kind of problem."), true),
            ("title", Schema.text().described("The reason phrase of the status."), true),
            ("status", Schema.integer(400...599), true),
            ("detail", Schema.text().described("What is wrong and what to do, for people."), true),
            (
                "code",
                Schema.integer(Int64(Int32.min)...Int64(Int32.max)).described(
                    "Kakao's code, if it has one for the case."
                ), true
            ),
            (
                "msg",
                Schema.text().described(
                    "Kakao's text. If the error is not Kakao's, Kakao's usual text for the code, otherwise the same as `detail`."
                ), true
            ),
            ("field", Schema.text().described("The field that is invalid."), false),
            ("allowed", Schema.text().described("The allowed values of the field."), false),
        ],
        allowingOthers: true
    )
    .named("Problem")
}
