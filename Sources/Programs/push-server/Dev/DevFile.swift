import FoundationEssentials
import Settings

/// The file with the addresses and the settings of a development server, which a shell reads.
struct DevFile {
    /// Variables that are no settings: the addresses of the server and of the sandbox.
    let addresses: [(name: String, value: String)]
    /// The settings, with which the commands that read settings work as the server does.
    let settings: [String: String]
    /// The folder of the programs.
    let programs: String

    var text: String {
        let assignments = addresses + settings.sorted { $0.key < $1.key }.map { (name: $0.key, value: $0.value) }
        return """
            # The addresses, keys and settings of push-server dev, for a shell: . dev.env
            \(assignments.map { "export \($0.name)=\(Self.quoted($0.value))" }.joined(separator: "\n"))
            # push-server itself.
            case ":$PATH:" in *:\(Self.quoted(programs)):*) ;; *) export PATH=\(Self.quoted(programs)):"$PATH" ;; esac

            """
    }

    /// Returns a text as a shell reads it back.
    private static func quoted(_ text: String) -> String {
        "'\(text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''"))'"
    }
}
