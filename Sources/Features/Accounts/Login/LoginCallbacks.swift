import Endpoints
import EventLoop
import HTTPServer
import HTTPTypes
import Identity
import KakaoAPI
import Locking
import Net
import Runtime

/// The outcome of a login in a browser, which the service gets as a parameter of its address.
enum LoginOutcome: Sendable, Equatable {
    case ticket(String)
    /// Another user than the expected one has logged in.
    case wrongAccount
    case error(String)

    static let failed = LoginOutcome.error("server_error")

    var parameter: (name: String, value: String) {
        switch self {
        case .ticket(let ticket): ("ticket", ticket)
        case .wrongAccount: ("error", "wrong_account")
        case .error(let name): ("error", name)
        }
    }

    /// Whether Kakao has accepted the code. Whatever else became of it, it may be invented.
    var isConfirmed: Bool {
        switch self {
        case .ticket, .wrongAccount: true
        case .error: false
        }
    }
}

/// The callbacks of logins in browsers. Shared by all event loops of a server.
///
/// Anyone can begin a login and return from it with an invented code, which only Kakao can tell from a right one. A login
/// therefore ends with its first callback, and further ones get the same outcome. Codes that yield no login slow down those that
/// follow (``RejectionPace``), for whatever reason: an error of Kakao's says no more about a code than a rejection.
final class LoginCallbacks: Sendable {
    /// The maximum number of ended logins remembered, of those with a code and of those without. The database knows the others
    /// with a code (``LoginResultStore/end(login:)``).
    private static let maximumOutcomes = 16_384
    /// The maximum number of callbacks in progress, including those that wait for their turn.
    private static let maximumCallbacks = 4096
    /// The delay in seconds before a browser that got no turn tries again.
    private static let retrySeconds: Int64 = 5

    private let outcomes = Locked(LRUCache<String, LoginOutcome>(limit: maximumOutcomes))
    /// The outcomes of logins without a code. They cost nothing, so that strangers can have any number of them, which must not evict
    /// the others.
    private let endings = Locked(LRUCache<String, LoginOutcome>(limit: maximumOutcomes))
    private let callbacks = SingleFlight<String, Result<LoginOutcome, any Error>>(limit: maximumCallbacks)
    private let pace: RejectionPace

    /// - Parameters:
    ///   - limits: The limits of codes that yield no login.
    ///   - connections: The number of connections of each event loop that the exchanges of codes have.
    init(_ limits: RejectionPace.Limits, connections: Int) {
        pace = RejectionPace(limits, connections: connections)
    }

    /// Returns the outcome of a login with a code: that of its first callback.
    ///
    /// - Parameters:
    ///   - id: The login, whose cookie the browser has.
    ///   - network: The network of the browser.
    ///   - loop: The caller's event loop.
    ///   - exchange: Exchanges the code. It is called at most once at a time, and not again once it has returned.
    /// - Throws: The errors of `exchange`, after which the login has not ended; ``Problem`` 429 if too many other codes yielded no
    ///   login and no turn comes in time, or if a quota at Kakao is used up.
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
            switch await self.pace.acquire(network, on: loop) {
            case .none: return .failure(Self.tooManyFailures)
            case .paused(let pause): return .failure(Self.quotaUsedUp(for: pause))
            case .granted: break
            }
            do {
                let outcome = try await exchange()
                self.pace.release(network, isRejected: !outcome.isConfirmed, on: loop)
                self.outcomes.withLock { $0.set(outcome, for: id) }
                return .success(outcome)
            } catch {
                self.pace.release(network, isRejected: false, on: loop)
                return .failure(error)
            }
        }
        guard let answer else { throw Self.tooManyFailures }
        return try answer.get()
    }

    /// Makes the callbacks that follow wait if an exchange failed because a quota of the app is used up.
    func pause(after error: KakaoError) { pace.pause(after: error) }

    /// Ends a login without a code. Returns the outcome of its first callback.
    ///
    /// Other servers do not learn of it: it has cost nothing, and a row for each would be what costs.
    func end(_ id: String, _ outcome: LoginOutcome) -> LoginOutcome {
        if let known = known(id) { return known }
        endings.withLock { $0.set(outcome, for: id) }
        return outcome
    }

    private func known(_ id: String) -> LoginOutcome? {
        outcomes.withLock { $0.value(id) } ?? endings.withLock { $0.value(id) }
    }

    private static var tooManyFailures: Problem {
        retried(after: retrySeconds, "Many logins have failed at Kakao lately.")
    }

    private static func quotaUsedUp(for pause: Duration) -> Problem {
        retried(after: pause.components.seconds + 1, "Kakao accepts no logins at the moment.")
    }

    /// The browser repeats the request by itself, so that a person only has to wait.
    private static func retried(after seconds: Int64, _ reason: String) -> Problem {
        Problem(
            of: .tooManyRequests,
            "\(reason) This page tries again in \(seconds) s.",
            headerFields: [.retryAfter: String(seconds), .refresh: String(seconds)]
        )
    }
}

extension HTTPField.Name {
    /// The seconds after which a browser reloads the page (WHATWG HTML, "Shared declarative refresh steps").
    fileprivate static let refresh = unvalidated("Refresh")
}
