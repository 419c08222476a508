import CEmbedded
import FoundationEssentials
import Glibc

/// This process among the servers of a database.
package enum ThisServer {
    /// The name of the machine.
    package static let host: String = {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0 else { return "localhost" }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }()

    /// When the process started to serve.
    package static let startedAt = Date()
}

/// The version of the program.
package enum ServerVersion {
    /// The number of the release, as in `VERSION`: `0.1.0`.
    package static let current = String(String(cString: embedded_version()).prefix { !$0.isNewline })

    /// The commit that the program was built of, or `development build`.
    package static let revision = embedded_revision().map { String(cString: $0) } ?? "development build"
}
