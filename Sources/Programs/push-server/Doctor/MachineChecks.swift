import Glibc
import HTTPServer
import Net
import Server

/// Checks of this machine: the certificate and key files, the limit of file descriptors, and the journal's directory.
struct MachineChecks {
    /// The number of days before its expiry from which a certificate is a warning. Automatic renewal happens earlier.
    private static let warningDays = 14

    let settings: Settings

    func findings() -> [Finding] {
        [
            Finding("http.tls", certificate()),
            Finding("http.max_connections", descriptors()),
            Finding("journal.directory", journal()),
        ]
    }

    /// Checks that the journal's directory is writable. A missing one is created by `serve`.
    private func journal() -> Verdict {
        guard let directory = settings.journal.directory else {
            return .skipped("not set: calls from Kakao are lost while PostgreSQL is unavailable")
        }
        guard access(directory, F_OK) == 0 else {
            // Finds the nearest parent that exists, where `mkdir -p` would begin.
            var parts = directory.split(separator: "/")
            let root = directory.hasPrefix("/") ? "/" : "./"
            while access(root + parts.joined(separator: "/"), F_OK) != 0, !parts.isEmpty { parts.removeLast() }
            return access(root + parts.joined(separator: "/"), W_OK | X_OK) == 0
                ? .ok("serve creates it when it starts")
                : .wrong("it cannot be created: \(String(cString: strerror(errno)))")
        }
        guard access("\(directory)/", R_OK | W_OK | X_OK) == 0 else {
            return .wrong("it is not readable and writable: \(String(cString: strerror(errno)))")
        }
        return .ok("it is writable")
    }

    private func certificate() -> Verdict {
        do {
            guard let context = try settings.tlsContext(), let keyFile = settings.privateKeyFile else {
                return .skipped("not set: plain HTTP, for use behind an HTTPS proxy")
            }
            guard let validity = context.certificateValidity else {
                return .wrong("the certificate's validity cannot be read: replace it")
            }
            let now = time(nil)
            let end = "expires at \(CivilDate(unixSeconds: validity.upperBound).rfc3339)Z"
            guard now < validity.upperBound else {
                return .wrong("the certificate has expired: renew it")
            }
            guard now >= validity.lowerBound else {
                return .wrong("the certificate is not valid yet: check this machine's clock")
            }
            if case .given(let url) = settings.publicURL, !context.certificateIsValid(for: WebAddress(url).host) {
                return .warning(
                    "the certificate is not for the host of http.public_url: get one for it, unless a proxy serves that host"
                )
            }
            guard validity.upperBound - now > Self.warningDays * 86_400 else {
                return .warning("the certificate \(end): renew it, then send push-server SIGHUP")
            }
            guard !Self.isReadableByAll(keyFile) else {
                return .warning("every user of this machine can read \(keyFile): chmod o-r")
            }
            return .ok("the certificate matches its key and \(end)")
        } catch {
            return .wrong("\(error)")
        }
    }

    private static func isReadableByAll(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IROTH != 0
    }

    /// Checks the limit to which a server can raise its limit of open files. A service manager may give the server
    /// another limit.
    private func descriptors() -> Verdict {
        let files = settings.openFiles()
        let limit = OpenFiles.hardLimit
        let connections = files.connections(limit: limit)
        guard limit < files.needed else {
            return .ok("\(connections), which the limit of open files allows (ulimit -Hn)")
        }
        return .warning(
            "the server may need \(files.needed) open files, and ulimit -Hn is \(limit) here, so that clients get "
                + "\(connections) connections at each port: raise it (LimitNOFILE=)"
        )
    }
}
