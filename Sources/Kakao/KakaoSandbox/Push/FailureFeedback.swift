import EventLoop
import HTTPClient
import HTTPTypes
import Locking
import Logging
import Net

/// Reports failed tokens to the `return_url` of a push, as Kakao does (Kakao Push: see
/// ``PushVersion/membersWithReturnURL``).
///
/// A report is a form with `userId`, `pushToken` and `date`. It is sent once, whatever the response.
struct FailureFeedback: Sendable {
    /// The maximum number of reports in flight. Further reports are dropped and counted.
    static let maximumPending = 10_000

    let client: HTTPClient
    let loop: EventLoop
    let logger: Logger
    private let state = Locked(FeedbackCounts())

    var counts: FeedbackCounts { state.withLock { $0 } }

    func report(_ failure: Ledger.Failure) {
        let hasRoom = state.withLock { counts in
            guard counts.pending < Self.maximumPending else {
                counts.dropped += 1
                return false
            }
            counts.pending += 1
            return true
        }
        guard hasRoom else { return }
        Task(executorPreference: loop) { await send(failure) }
    }

    private func send(_ failure: Ledger.Failure) async {
        var form = FormBody()
        form.append("userId", String(failure.userID))
        form.append("pushToken", failure.pushToken)
        form.append("date", String(failure.failedAt))
        var status: Int?
        do {
            let request = HTTPClientRequest(
                method: .post,
                url: failure.returnURL,
                headerFields: [.contentType: "application/x-www-form-urlencoded"],
                body: form.bytes
            )
            status = try await client.send(request).status
        } catch {
            // The URL is not logged, because a part of it is secret.
            logger.warning("Failure feedback not delivered", metadata: ["error": "\(error)"])
        }
        state.withLock { counts in
            counts.pending -= 1
            if let status, (200..<300).contains(status) { counts.accepted += 1 } else { counts.refused += 1 }
        }
    }
}

/// The numbers of reports of failed tokens, by result.
package struct FeedbackCounts: Sendable, Equatable {
    /// In flight.
    package var pending = 0
    /// Answered with 2xx.
    package var accepted = 0
    /// Answered with another status, or without a response.
    package var refused = 0
    /// Never sent, because too many were in flight.
    package var dropped = 0
}
