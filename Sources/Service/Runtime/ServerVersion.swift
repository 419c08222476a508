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
    package static let current = "0.1.0"

    /// The revision of the source, which the image's build puts into the environment.
    package static let revision: String = {
        let revision = ProcessInfo.processInfo.environment["PUSH_SERVER_REVISION"] ?? ""
        return revision.isEmpty ? "unknown" : revision
    }()
}
