internal import HTTPTypes
internal import ServiceKit

extension ProblemKind {
    static let messageEnded = ProblemKind(.conflict, "message-ended", "The message has ended.")
}
