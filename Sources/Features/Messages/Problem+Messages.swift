import Endpoints
import HTTPTypes

extension ProblemKind {
    static let messageEnded = ProblemKind(.conflict, "message-ended", "The message has ended.")
}
