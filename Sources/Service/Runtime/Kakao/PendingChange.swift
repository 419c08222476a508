import Endpoints
import HTTPServer
import HTTPTypes
import Schemas

extension Response {
    /// The response 202 to a change that is stored here while the call to Kakao is pending.
    package static var pending: Response {
        .json(PendingChange.shape.json(PendingChange()), status: .accepted)
    }

    /// Returns the response with `X-State: pending`: the change is stored here while the call to Kakao is pending. It is for responses in
    /// Kakao's format, whose status and body clients of Kakao read.
    package consuming func withPendingState() -> Response {
        headerFields[.state] = "pending"
        return self
    }
}

extension HTTPField.Name {
    fileprivate static let state = unvalidated("X-State")
}

extension Answer.Header {
    /// The header field of ``Response/withPendingState()``.
    package static let state = Answer.Header(
        "X-State",
        "`pending` if the change is stored here and the call to Kakao is pending."
    )
}

extension Answer {
    /// The response ``Response/pending``.
    package static let pending = Answer.json(
        .accepted,
        PendingChange.shape,
        "The change is stored, and the call to Kakao pending."
    )
}

/// The body of ``Response/pending``.
private struct PendingChange: Sendable {
    static let shape = Shape<PendingChange>(
        "PendingChange",
        [.member("state", .text(oneOf: ["pending"]), "Always `pending`.") { _ in "pending" }]
    )
}
