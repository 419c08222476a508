package import HTTPTypes
package import Schemas

/// A response that an operation may give, other than a problem.
package struct Answer: Sendable {
    /// A header field of a response.
    package struct Header: Sendable {
        let name: String
        let description: String

        package init(_ name: String, _ description: String) {
            self.name = name
            self.description = description
        }

        package static let location = Header("Location", "The path of the object.")
        package static let answeredBy = Header("X-Answered-By", "`kakao` if the answer is Kakao's.")
        static let ignoredParameters = Header(
            "X-Ignored-Parameters",
            "The names of fields that were ignored because the operation does not have them, if there are any."
        )
    }

    let status: HTTPResponse.Status
    let description: String
    /// The media types of the body with their schemas; empty for a response without a body.
    let contents: [(type: String, schema: Schema)]
    let headers: [Header]

    /// A JSON object.
    package static func json<Value>(
        _ status: HTTPResponse.Status,
        _ shape: Shape<Value>,
        _ description: String,
        headers: [Header] = []
    ) -> Answer {
        .json(status, shape.kind.output, description, headers: headers)
    }

    /// JSON that its handler writes itself.
    package static func json(
        _ status: HTTPResponse.Status,
        _ schema: Schema,
        _ description: String,
        headers: [Header] = []
    ) -> Answer {
        .media(status, ["application/json"], description, schema: schema, headers: headers)
    }

    /// A body of one of some media types.
    package static func media(
        _ status: HTTPResponse.Status,
        _ types: [String],
        _ description: String,
        schema: Schema = .text(),
        headers: [Header] = []
    ) -> Answer {
        Answer(status: status, description: description, contents: types.map { ($0, schema) }, headers: headers)
    }

    /// This response, or one with the same meaning in other media types.
    package func or(_ types: [String], schema: Schema = .text()) -> Answer {
        Answer(
            status: status,
            description: description,
            contents: contents + types.map { ($0, schema) },
            headers: headers
        )
    }

    /// A response without a body.
    package static func empty(
        _ status: HTTPResponse.Status,
        _ description: String,
        headers: [Header] = []
    ) -> Answer {
        Answer(status: status, description: description, contents: [], headers: headers)
    }
}
