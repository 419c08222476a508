/// A permission of an operator key.
package enum Scope: String, CaseIterable, Sendable {
    /// Permission to register, list and deregister any user's devices.
    case devices
    /// Permission to send and control pushes.
    case send
    /// Permission to read the server's data: pushes, callbacks, devices.
    case read
    /// Everything.
    case admin

    /// Returns whether a key with the scopes `granted` has this permission.
    package func isAllowed(by granted: Set<Scope>) -> Bool {
        granted.contains(self) || granted.contains(.admin)
    }
}
