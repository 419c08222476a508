package import Endpoints

/// A named set of scopes for the keys of one group of people, or of programs. A key stores the scopes, so that a later version
/// with other roles changes no key.
package enum OperatorRole: String, CaseIterable, Sendable {
    /// Creates pushes and shares, and follows them.
    case marketing
    /// Looks up single users, and repairs or removes their devices.
    case support
    /// Observes what is sent and received, and stops and starts it.
    case onCall = "on-call"
    /// Approves the pushes of others.
    case approver
    /// Manages keys, and reads the audit log.
    case security
    /// The service's own servers.
    case backend

    package var scopes: Set<Scope> {
        switch self {
        case .marketing: [.send, .sharing, .read]
        case .support: [.devices, .accounts, .read]
        case .onCall: [.operate, .read]
        case .approver: [.approve, .read]
        case .security: [.admin]
        case .backend: [.devices, .send, .accounts, .talk, .userCalls, .sharing, .read]
        }
    }
}
