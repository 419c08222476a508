/// The authenticated caller of a request, as the application knows it.
package protocol Principal: Sendable {
    /// The name of the caller's key in the access log; `nil` for a caller without a key.
    var keyName: String? { get }
}
