import Glibc
import HTTPServer
import Net
import Server

/// Checks of this machine: the files of secrets, the certificate and its key, the limit of file descriptors, and the journal's directory.
struct MachineChecks {
    /// The number of days before its expiry from which a certificate is a warning. Automatic renewal happens earlier.
    private static let warningDays = 14

    let settings: Settings

    func findings() -> [Finding] {
        [
            Finding("secrets", secretFiles()),
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
            guard let context = try settings.tlsContext() else {
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
            return .ok("the certificate matches its key and \(end)")
        } catch {
            return .wrong("\(error)")
        }
    }

    /// Checks that other users of this machine can neither read nor replace the contents of files with secrets. Members of a
    /// file's group may read it.
    private func secretFiles() -> Verdict {
        let files = settings.secretFiles + [settings.privateKeyFile].compactMap(\.self)
        guard !files.isEmpty else { return .skipped("no file of the settings contains a secret") }
        let open = files.filter { path in
            var status = stat()
            return stat(path, &status) == 0 && status.st_mode & (S_IROTH | S_IWOTH | S_IWGRP) != 0
        }
        guard open.isEmpty else {
            return .warning(
                "other users of this machine can read or change \(open.joined(separator: ", ")): chmod g-w,o-rwx"
            )
        }
        return .ok("only their owners and groups can read \(files.joined(separator: ", "))")
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
