import EventLoop
import KakaoAPI

/// Calls to Kakao that are held back together while Kakao refuses them, or while something else responds in its place.
package enum KakaoCircuit: Sendable, CaseIterable {
    /// The sending of pushes.
    case pushes
    /// The registration of push tokens.
    case registrations
    /// The deregistration of push tokens.
    case deregistrations
    /// The sending of stored KakaoTalk messages.
    case messages

    private static let byCall: [String: KakaoCircuit] = {
        let messages: [any KakaoCall.Type] = [
            SendDefaultMemo.self, SendCustomMemo.self, SendScrapMemo.self, SendDefaultMessage.self,
            SendCustomMessage.self, SendScrapMessage.self,
        ]
        var circuits: [String: KakaoCircuit] = [
            SendPush.name: .pushes, RegisterPushToken.name: .registrations,
            DeregisterPushToken.name: .deregistrations,
        ]
        for call in messages { circuits[call.name] = .messages }
        return circuits
    }()

    /// The circuit of a call; `nil` for a call that is never held back, and says nothing about those that are.
    ///
    /// A message that a user's app sends through the relay has that user's token and content, of which a gateway may block some.
    init?(_ call: KakaoCallReport) {
        guard let circuit = Self.byCall[call.name], circuit != .messages || call.budget == .background else {
            return nil
        }
        self = circuit
    }
}

/// Holds calls back while they are in vain: one call at a time may find out whether that has changed, after 1 s, 2 s, 4 s and so
/// on up to a minute, and not before the time that `Retry-After` names.
package struct CircuitBreaker: Sendable {
    /// Why calls are in vain.
    package enum Cause: Sendable, Equatable {
        /// Kakao refuses the key or the app. Only a success shows that it no longer does.
        case refused(String)
        /// Something that is not Kakao responds. Any response of Kakao's ends that.
        case unrecognized(String)

        package var reason: String {
            switch self {
            case .refused(let reason), .unrecognized(let reason): reason
            }
        }
    }

    /// The time in milliseconds for which something else may respond before the calls count as halted.
    static let haltMilliseconds: UInt64 = 60_000
    private static let delay = RetryDelay(first: .seconds(1), longest: .seconds(60))
    private static let longestRequestedDelay = Duration.seconds(3600)

    /// `nil` while calls succeed: the circuit is closed.
    package private(set) var cause: Cause?
    /// Whether the calls count as halted: at once if Kakao refuses them.
    package private(set) var isHalted = false
    /// The time before which no call is made.
    private(set) var nextCall: UInt64 = 0
    private var openedAt: UInt64 = 0
    private var probes = 0

    /// Returns whether a call may be made now. If the circuit is open, the next one may be made a while later.
    mutating func admit(at now: UInt64) -> Bool {
        guard cause != nil else { return true }
        guard now >= nextCall else { return false }
        probes += 1
        nextCall = now + Self.delay.after(probes + 1).wholeMilliseconds
        return true
    }

    /// Records a call that has ended.
    mutating func record(_ error: KakaoError?, at now: UInt64) {
        guard let error else {
            self = CircuitBreaker()
            return
        }
        switch (error.kind, error.disposition, cause) {
        case (_, .halt, _):
            open(.refused(error.description), error, at: now)
            isHalted = true
        case (.unrecognized, _, .refused):
            break
        case (.unrecognized, _, _):
            open(.unrecognized(error.description), error, at: now)
            isHalted = isHalted || now - openedAt >= Self.haltMilliseconds
        case (.refused, _, .unrecognized):
            self = CircuitBreaker()
        default:
            break
        }
    }

    private mutating func open(_ cause: Cause, _ error: KakaoError, at now: UInt64) {
        if self.cause == nil {
            openedAt = now
            nextCall = now + Self.delay.after(1).wholeMilliseconds
        }
        self.cause = cause
        let requested = min(error.retryAfter ?? .zero, Self.longestRequestedDelay)
        nextCall = max(nextCall, now + requested.wholeMilliseconds)
    }
}
