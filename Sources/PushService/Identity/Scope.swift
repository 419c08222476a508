/// What an operator's key allows.
package enum Scope: String, CaseIterable, Sendable {
    /// To register, list and deregister any user's devices.
    case devices
    /// To send pushes and to steer them.
    case send
    /// To read what the server holds: pushes, callbacks, devices.
    case read
    /// Everything.
    case admin

    /// Whether one of `granted` allows it.
    func isAllowed(by granted: Set<Scope>) -> Bool {
        granted.contains(self) || granted.contains(.admin)
    }
}
