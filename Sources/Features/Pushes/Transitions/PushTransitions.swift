import Postgres
import Schemas

/// The state of a push. `docs/architecture.md` draws the transitions.
package enum PushState: String, Sendable, CaseIterable {
    /// Waits for its approval.
    case proposed
    /// Waits for its `send_at`, or is advertising that waits for its hours: such a push may be stored as ``preparing``.
    case scheduled
    /// Its audience is being expanded into batches; those that exist are sent.
    case preparing
    /// All of its batches exist.
    case sending
    /// Nothing is left to send.
    case done
    /// Stopped by an operator, who can resume it.
    case paused
    /// Ended by an operator, who may have rejected it.
    case canceled
    /// Ended by its `expires_at`, or not approved in time.
    case expired
    /// Kakao rejects the Admin key, the app or the message; its audience has grown since it was counted; or a push whose users it
    /// leaves out was deleted. An operator can resume, approve or cancel it.
    case halted

    /// Whether the push ends there, unless an operator retries its failed batches.
    package var isFinal: Bool {
        switch self {
        case .done, .canceled, .expired: true
        case .proposed, .scheduled, .preparing, .sending, .paused, .halted: false
        }
    }
}

extension Kind where Value == PushState {
    static var pushState: Kind { .choice.named("PushState") }
}

/// An event that changes the state of a push, by a statement of its own in this folder.
package enum PushEvent: String, CaseIterable, Sendable {
    /// A step of its audience became batches.
    case prepare
    /// The last step of its audience became batches.
    case completePreparation
    /// The last step of its audience became batches, which have more users than are allowed.
    case outgrow
    case finish
    case expire
    case expireProposal
    case halt
    case approve
    case reject
    case pause
    case resume
    case cancel
    case retry

    /// The states in which the event happens. In any other state its statement changes nothing.
    var before: [PushState] {
        switch self {
        case .prepare, .completePreparation, .outgrow: [.scheduled, .preparing]
        case .finish: [.sending]
        case .expire, .halt, .pause: [.scheduled, .preparing, .sending]
        case .expireProposal: [.proposed]
        // A halted push if its audience has grown.
        case .approve, .reject: [.proposed, .halted]
        // A halted push unless its audience has grown.
        case .resume: [.paused, .halted]
        case .cancel: [.proposed, .scheduled, .preparing, .sending, .paused, .halted]
        case .retry: [.done]
        }
    }

    /// The states to which it leads.
    var after: [PushState] {
        switch self {
        case .prepare: [.preparing]
        case .completePreparation: [.sending]
        case .finish: [.done]
        case .expire, .expireProposal: [.expired]
        case .halt, .outgrow: [.halted]
        case .pause: [.paused]
        // ``ApprovePush`` and ``ResumePush`` choose the state by the progress of the push.
        case .approve, .resume: [.scheduled, .preparing, .sending]
        case .cancel, .reject: [.canceled]
        case .retry: [.sending]
        }
    }
}

extension PushEvent {
    /// Those that operators cause, by `POST /v1/pushes/{id}/approve` and so on.
    static let actions: [PushEvent] = [.approve, .reject, .pause, .resume, .cancel, .retry]
}

extension PushState {
    /// Returns the actions that change a push in this state. `docs/delivery.md` has them as a table.
    func actions(awaitsApproval: Bool) -> [PushEvent] {
        let excluded: [PushEvent] = awaitsApproval ? [.resume] : [.approve, .reject]
        return PushEvent.actions.filter { $0.before.contains(self) && !excluded.contains($0) }
    }

    /// Returns why a push in this state does not allow an action, and what is possible instead; `nil` if it allows the action.
    package func refusal(of action: PushEvent, awaitsApproval: Bool) -> String? {
        let possible = actions(awaitsApproval: awaitsApproval)
        guard !possible.contains(action) else { return nil }
        let refusal = "Cannot \(action.rawValue) a push in state `\(rawValue)`."
        guard !isFinal else {
            let retry = possible.contains(.retry) ? " What has failed can be retried." : ""
            return "\(refusal) It has ended.\(retry) A copy of it can be sent."
        }
        var reason = awaitsApproval ? "It waits for an approval. " : ""
        if self == .proposed, !awaitsApproval { reason = "It was not approved in time. " }
        return "\(refusal) \(reason)Possible actions: \(possible.map(\.rawValue).joined(separator: ", "))."
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
