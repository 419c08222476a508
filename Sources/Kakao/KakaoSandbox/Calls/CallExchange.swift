/// The handling of one request, from the arrival of its body to its response.
struct CallExchange<Answer: Sendable>: Sendable {
    /// The users that the request names, for faults that are limited to some users.
    var users: [Int64] = []
    /// Executes the request. Not called if a fault replaces the response of a request that is not executed.
    ///
    /// - Returns: The answer, and the event for which faults may wait.
    /// - Throws: ``KakaoRefusal``.
    let execute: @Sendable () async throws -> (answer: Answer, event: Fault.Event?)
    /// Called once, when the response is handed to the connection, or when there will be none.
    ///
    /// - Parameters:
    ///   - event: The event of ``execute``.
    ///   - isDelivered: Whether the response is the one of ``execute``, and the connection was open.
    var onCompletion: @Sendable (_ event: Fault.Event?, _ isDelivered: Bool) -> Void = { _, _ in }
}
