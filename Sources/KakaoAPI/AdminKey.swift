/// Kakao's Admin key of this service: it may do everything that the service may.
///
/// It prints as `***`, however it is printed; who needs the text says so, by ``unmasked``.
package struct AdminKey: Sendable {
    /// The key itself: for `Authorization`, and for comparing with one that came in. Not for a log, an error or a page.
    package let unmasked: String

    package init(_ key: String) {
        unmasked = key
    }
}

extension AdminKey: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "***" }
    package var debugDescription: String { "***" }
    /// What `dump` and a debugger see.
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}
