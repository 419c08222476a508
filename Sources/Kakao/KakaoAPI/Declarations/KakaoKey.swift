import HTTPTypes
import Locking
import Net

/// A key that Kakao has issued: the Admin key, which grants every permission that the service has, or an app key.
///
/// The key always prints as `***`. Code that needs the text uses ``unmasked``.
///
/// All clients of a server share the key, so that ``replace(by:)`` applies to every call that begins afterwards.
package final class KakaoKey: Sendable {
    private struct Current {
        let text: String
        /// The header fields of a form with the key, which most calls have.
        let form: HTTPFields

        init(_ text: String) {
            self.text = text
            form = [.authorization: "KakaoAK \(text)", .contentType: FormBody.contentType]
        }
    }

    private let current: Locked<Current>

    package init(_ key: String) {
        current = Locked(Current(key))
    }

    /// The key itself, for `Authorization`. It must not appear in a log, error or page.
    package var unmasked: String { current.withLock { $0.text } }

    /// The header fields of a form with the key.
    var form: HTTPFields { current.withLock { $0.form } }

    /// Replaces the key for all further calls.
    package func replace(by key: String) {
        let replacement = Current(key)
        current.withLock { $0 = replacement }
    }
}

extension KakaoKey: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "***" }
    package var debugDescription: String { "***" }
    /// An empty mirror, so that `dump` and debuggers do not show the key.
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}
