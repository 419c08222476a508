internal import FoundationEssentials

/// The version of the program.
package enum ServerVersion {
    package static let current = "0.1.0"

    /// The revision of the source, which the image's build puts into the environment.
    package static let revision: String = {
        let revision = ProcessInfo.processInfo.environment["PUSH_SERVER_REVISION"] ?? ""
        return revision.isEmpty ? "unknown" : revision
    }()
}
