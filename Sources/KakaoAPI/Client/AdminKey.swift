/// Kakao's Admin key of this service. It grants every permission that the service has.
///
/// The key always prints as `***`. Code that needs the text uses ``unmasked``.
package struct AdminKey: Sendable {
    /// The key itself, for `Authorization` and for comparison with a received key. It must not appear in a log, error
    /// or page.
    package let unmasked: String

    package init(_ key: String) {
        unmasked = key
    }
}

extension AdminKey: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "***" }
    package var debugDescription: String { "***" }
    /// An empty mirror, so that `dump` and debuggers do not show the key.
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}
