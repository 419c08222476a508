package import Endpoints
package import HTTPServer
import HTTPTypes
import Schemas

extension Response {
    /// The response 202 to a change that is stored here while the call to Kakao is pending.
    package static var pending: Response {
        .json(PendingChange.shape.json(PendingChange()), status: .accepted)
    }
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
