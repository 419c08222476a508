import Endpoints
import EventLoop
import HTTPServer
import HTTPTypes
import Identity
import Locking
import Net
import Runtime

/// The outcome of a login in a browser, which the service gets as a parameter of its address.
enum LoginOutcome: Sendable, Equatable {
    case ticket(String)
    case error(String)
    /// Kakao has rejected the code. The service gets no details.
    case rejected

    static let failed = LoginOutcome.error("server_error")

    var parameter: (name: String, value: String) {
        switch self {
        case .ticket(let ticket): ("ticket", ticket)
        case .error(let name): ("error", name)
        case .rejected: Self.failed.parameter
        }
    }
}

/// The callbacks of logins in browsers. Shared by all event loops of a server.
///
/// Anyone can begin a login and return from it with an invented code, which only Kakao can tell from a right one. A login
/// therefore ends with its first callback, and further ones get the same outcome. Rejected codes slow down the codes that
/// follow (``RejectionPace``).
final class LoginCallbacks: Sendable {
    /// The maximum number of ended logins remembered. The database knows the others (``LoginResultStore/end(login:)``).
    private static let maximumOutcomes = 16_384
    /// The maximum number of callbacks in progress, including those that wait for their turn.
    private static let maximumCallbacks = 4096
    /// The delay in seconds before a browser that got no turn tries again.
    private static let retrySeconds = 5

    private let outcomes = Locked(LRUCache<String, LoginOutcome>(limit: maximumOutcomes))
    private let callbacks = SingleFlight<String, Result<LoginOutcome, any Error>>(limit: maximumCallbacks)
    private let pace: RejectionPace

    /// - Parameter limits: The limits of rejected codes.
    init(_ limits: RejectionPace.Limits) {
        pace = RejectionPace(limits)
    }

    /// Returns the outcome of a login with a code: that of its first callback.
    ///
    /// - Parameters:
    ///   - id: The login, whose cookie the browser has.
    ///   - network: The network of the browser.
    ///   - loop: The caller's event loop.
    ///   - exchange: Exchanges the code. It is called at most once at a time, and not again once it has returned.
    /// - Throws: The errors of `exchange`, after which the login has not ended; ``Problem`` 429 if other codes were rejected,
    ///   and no turn comes in time.
    func outcome(
        of id: String,
        from network: SocketAddress.Network,
        on loop: EventLoop,
        exchange: @escaping @Sendable () async throws -> LoginOutcome
    ) async throws -> LoginOutcome {
        if let known = known(id) { return known }
        let answer = await callbacks.answer(to: id, on: loop) {
            // An earlier callback may have ended between the look-up and this call.
            if let known = self.known(id) { return .success(known) }
            guard await self.pace.acquire(network, on: loop) else { return .failure(Self.tooManyRejections) }
            do {
                let outcome = try await exchange()
                self.pace.release(network, isRejected: outcome == .rejected)
                return .success(self.end(id, outcome))
            } catch {
                self.pace.release(network, isRejected: false)
                return .failure(error)
            }
        }
        guard let answer else { throw Self.tooManyRejections }
        return try answer.get()
    }

    /// Ends a login without a code. Returns the outcome of its first callback.
    ///
    /// It is not stored in the database, since it has cost nothing.
    func end(_ id: String, _ outcome: LoginOutcome) -> LoginOutcome {
        outcomes.withLock { outcomes in
            if let known = outcomes.value(id) { return known }
            outcomes.set(outcome, for: id)
            return outcome
        }
    }

    private func known(_ id: String) -> LoginOutcome? { outcomes.withLock { $0.value(id) } }

    /// The browser repeats the request by itself, so that a person only has to wait.
    private static var tooManyRejections: Problem {
        Problem(
            of: .tooManyRequests,
            "Kakao has rejected many logins lately. This page tries again in \(retrySeconds) s.",
            headerFields: [.retryAfter: String(retrySeconds), .refresh: String(retrySeconds)]
        )
    }
}

extension HTTPField.Name {
    /// The seconds after which a browser reloads the page (WHATWG HTML, "Shared declarative refresh steps").
    fileprivate static let refresh = unvalidated("Refresh")
}
