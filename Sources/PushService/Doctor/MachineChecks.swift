internal import EventLoop
internal import Glibc
internal import HTTPServer
internal import Postgres

/// Checks of this machine: the certificate and key files, the limit of file descriptors, and the journal's directory.
struct MachineChecks {
    /// Days before its end that a certificate is said to end. Those that are renewed by themselves are by then.
    private static let warningDays = 14

    let settings: Settings

    func findings() -> [Finding] {
        [certificate(), descriptors(), journal()]
    }

    /// Whether records can be written to the directory, which `serve` makes if it is missing.
    private func journal() -> Finding {
        let setting = SettingKey.journalDirectory.rawValue
        guard let directory = settings.journal.directory else {
            return Finding(.skipped, setting, "not set: calls from Kakao are lost while PostgreSQL does not answer")
        }
        guard access(directory, F_OK) == 0 else {
            // As `mkdir -p`: from the first directory that there is.
            var parts = directory.split(separator: "/")
            let root = directory.hasPrefix("/") ? "/" : "./"
            while access(root + parts.joined(separator: "/"), F_OK) != 0, !parts.isEmpty { parts.removeLast() }
            return access(root + parts.joined(separator: "/"), W_OK | X_OK) == 0
                ? Finding(.ok, setting, "serve makes it when it starts")
                : Finding(.wrong, setting, "it does not exist, and cannot be made: \(String(cString: strerror(errno)))")
        }
        guard access("\(directory)/", R_OK | W_OK | X_OK) == 0 else {
            return Finding(.wrong, setting, "it cannot be used: \(String(cString: strerror(errno)))")
        }
        return Finding(.ok, setting, "it can be written to")
    }

    private func certificate() -> Finding {
        let subject = "http.tls"
        do {
            guard let context = try settings.tlsContext(), let keyFile = settings.privateKeyFile else {
                return Finding(.skipped, subject, "not set: plain HTTP, for a proxy that speaks HTTPS")
            }
            guard let validity = context.certificateValidity else {
                return Finding(.wrong, subject, "the certificate does not say how long it is valid: have another made")
            }
            let now = time(nil)
            let end = "ends at \(CivilDate(unixSeconds: validity.upperBound).rfc3339)Z"
            guard now < validity.upperBound else {
                return Finding(.wrong, subject, "the certificate has ended: renew it")
            }
            guard now >= validity.lowerBound else {
                return Finding(.wrong, subject, "the certificate is not valid yet: see that the clock is right")
            }
            if case .given(let url) = settings.publicURL, !context.certificateNames(WebAddress(url).host) {
                return Finding(
                    .warning,
                    subject,
                    "the certificate is not for the host of http.public_url: have one made for it, unless a proxy stands between"
                )
            }
            guard validity.upperBound - now > Self.warningDays * 86_400 else {
                return Finding(.warning, subject, "the certificate \(end): renew it, then send push-server SIGHUP")
            }
            guard !Self.isReadableByAll(keyFile) else {
                return Finding(.warning, subject, "everybody on this machine may read \(keyFile): chmod o-r")
            }
            return Finding(.ok, subject, "certificate and key go together; the certificate \(end)")
        } catch {
            return Finding(.wrong, subject, "\(error)")
        }
    }

    private static func isReadableByAll(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IROTH != 0
    }

    /// Of the process that this runs in: a service that is started by something else may have others.
    private func descriptors() -> Finding {
        let subject = "http.max_connections"
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else {
            return Finding(.skipped, subject, "how many files may be open is not known")
        }
        let needed = settings.http.maximumConnections + ownDescriptors
        guard limit.rlim_cur < UInt(needed) else {
            return Finding(
                .ok,
                subject,
                "\(settings.http.maximumConnections), and enough files may be open (ulimit -n)"
            )
        }
        return Finding(
            .warning,
            subject,
            "\(settings.http.maximumConnections) connections need \(needed) open files, and ulimit -n is \(limit.rlim_cur) here: "
                + "raise it (LimitNOFILE=), or who comes then waits"
        )
    }

    /// What a server has open beside the connections of those who call it.
    private var ownDescriptors: Int {
        // To Kakao's two addresses; epoll, its signal and the listener; log, libraries, files that are read.
        let ofLoop = settings.kakao.maximumConcurrentRequests * 2 + 4
        let database = (try? PostgresSettings(url: settings.databaseURL.revealed)).map {
            PushServer.maximumDatabaseConnections($0)
        }
        return EventLoopGroup.coreCount * ofLoop + (database ?? 0) + 32
    }
}
