internal import Postgres

/// The state of a push. `docs/architecture.md` draws the transitions.
package enum PushState: String, Sendable, CaseIterable {
    /// Waits for its `send_at`.
    case scheduled
    /// Its audience is being expanded into batches; those that exist are sent.
    case preparing
    /// All of its batches exist.
    case sending
    /// Nothing is left to send.
    case done
    /// Stopped by an operator, who can resume it.
    case paused
    /// Ended by an operator.
    case canceled
    /// Ended by its `expires_at`.
    case expired
    /// Kakao rejects the Admin key, the app or the message. An operator can resume it.
    case halted

    /// Whether the push ends there, unless an operator retries its failed batches.
    package var isFinal: Bool {
        switch self {
        case .done, .canceled, .expired: true
        case .scheduled, .preparing, .sending, .paused, .halted: false
        }
    }
}

/// An event that changes the state of a push, by a statement of its own in this folder.
enum PushEvent: CaseIterable, Sendable {
    /// A step of its audience became batches.
    case prepare
    /// The last step of its audience became batches.
    case completePreparation
    case finish
    case expire
    case halt
    case pause
    case resume
    case cancel
    case retry

    /// The states in which the event happens. In any other state its statement changes nothing.
    var before: [PushState] {
        switch self {
        case .prepare, .completePreparation: [.scheduled, .preparing]
        case .finish: [.sending]
        case .expire, .halt, .pause: [.scheduled, .preparing, .sending]
        case .resume: [.paused, .halted]
        case .cancel: [.scheduled, .preparing, .sending, .paused, .halted]
        case .retry: [.done]
        }
    }

    /// The states to which it leads.
    var after: [PushState] {
        switch self {
        case .prepare: [.preparing]
        case .completePreparation: [.sending]
        case .finish: [.done]
        case .expire: [.expired]
        case .halt: [.halted]
        case .pause: [.paused]
        // ``ResumePush`` chooses the state by the progress of the push.
        case .resume: [.scheduled, .preparing, .sending]
        case .cancel: [.canceled]
        case .retry: [.sending]
        }
    }
}

/// An event that an operator causes.
enum PushControl: String, CaseIterable, Sendable {
    /// Sends nothing more of the push until it is resumed.
    case pause
    /// Continues a paused or halted push.
    case resume
    /// Sends nothing more of the push.
    case cancel
    /// Sends the failed batches of a finished push again, unless the push has expired.
    case retry

    var event: PushEvent {
        switch self {
        case .pause: .pause
        case .resume: .resume
        case .cancel: .cancel
        case .retry: .retry
        }
    }
}

extension PostgresValue {
    /// The states in which an event happens: the guard of its statement.
    static func states(before event: PushEvent) -> PostgresValue { .texts(event.before.map(\.rawValue)) }
}
