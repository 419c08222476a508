import HTTPClient
import HTTPServer
import KakaoAPI
import Messages

/// Relays KakaoTalk messages within the quotas of the day.
///
/// A message is counted before it is sent, and no longer if Kakao has certainly not counted it. Receivers for whom a quota is used
/// up by this server's count are left out, and reported as Kakao reports those whom it does not reach.
struct MessageRelay {
    let reservations: QuotaReservations

    /// Relays a message to the receivers for whom there is room.
    ///
    /// - Parameters:
    ///   - send: Makes the call.
    ///   - problem: Returns the problem of a call that failed.
    /// - Returns: Kakao's response, whose `failure_info` has the receivers that were left out too.
    /// - Throws: ``Problem`` if no receiver is left; ``KakaoError``; else the errors of `send`
    func send<Message: MessageCall>(
        _ message: Message,
        from sender: Int64,
        send: (Message) async throws -> HTTPClientResponse,
        problem: (KakaoError) -> Problem
    ) async throws -> HTTPClientResponse {
        let reservation = try await reservations.reserve(message.messageReceivers, from: sender)
        let failures = reservation.failures
        let counted = failures.isEmpty ? message : message.addressed(to: reservation.uuids.compactMap(\.self))
        do {
            var response = try await send(counted)
            try? await reservations.release(counted.unreached(inBody: response.body), of: reservation)
            response.body = FailureInfo.adding(failures, to: response.body)
            return response
        } catch {
            let kakaoError = error as? KakaoError
            if kakaoError?.hasUnknownOutcome != true {
                try? await reservations.release(reservation.uuids, of: reservation)
            }
            guard let kakaoError, !failures.isEmpty else { throw error }
            // Whatever became of the others, these receivers were not reached.
            var problem = problem(kakaoError)
            FailureInfo.add(failures, to: &problem.members)
            throw problem
        }
    }
}
