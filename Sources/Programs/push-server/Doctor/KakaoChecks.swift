import Callbacks
import Crypto
import Endpoints
import EventLoop
import FoundationEssentials
import HTTPClient
import HTTPTypes
import Identity
import KakaoAPI
import Settings

/// Checks that Kakao is reachable, that it accepts the Admin key, that the app id is right, and that Kakao's list of its own addresses
/// can be used.
struct KakaoChecks: Sendable {
    let settings: KakaoSettings
    /// Whether `http.trusted_proxies` is set.
    let hasTrustedProxies: Bool
    let accessToken: Secret?
    let client: HTTPClient

    /// The subjects of the findings, in their order.
    private static let subjects = [
        "kakao.proxy_url", "kakao.api_url", "clock.kakao", "kakao.admin_key", "kakao.app_id", "kakao.source_addresses",
    ]

    func findings() async -> [Finding] {
        let begin = Date()
        let response: HTTPClientResponse
        do throws(HTTPClientError) {
            response = try await client.send(HTTPClientRequest(url: settings.apiURL + "/"))
        } catch {
            let wrong = error.code == .proxy ? "kakao.proxy_url" : "kakao.api_url"
            return Self.subjects.map {
                let verdict =
                    $0 == wrong
                    ? Verdict.wrong(error.remedy(certificate: settings.certificateRemedy))
                    : Verdict.skipped("\(wrong) does not lead to Kakao")
                return Finding($0, verdict)
            }
        }
        let end = Date()
        return [
            Finding("kakao.proxy_url", proxy),
            Finding("kakao.api_url", reached(in: .seconds(end.timeIntervalSince(begin)))),
            Finding("clock.kakao", clock(response, begin, end)),
            Finding("kakao.admin_key", await adminKey()),
            Finding("kakao.app_id", await appID()),
            Finding("kakao.source_addresses", await sourceAddresses()),
        ]
    }

    private var proxy: Verdict {
        guard let proxy = settings.proxy else {
            return .skipped("not set: the server connects to Kakao directly")
        }
        return .ok("\(proxy) connects to Kakao")
    }

    private func reached(in time: Duration) -> Verdict {
        let text = "\(settings.apiURL) responded in \(time.inMilliseconds), including the connection setup"
        guard settings.apiURL.hasPrefix("http://"), !WebAddress(settings.apiURL).isLoopback else {
            return .ok(text)
        }
        return .warning("the Admin key is sent unencrypted: use https://")
    }

    private func clock(_ response: HTTPClientResponse, _ begin: Date, _ end: Date) -> Verdict {
        guard let seconds = response.headerFields[.date].flatMap({ HTTPDate.unixSeconds($0) }) else {
            return .skipped("the response of kakao.api_url has no valid Date header")
        }
        let date = Date(timeIntervalSince1970: Double(seconds))
        return ClockCheck(other: "Kakao's clock").verdict(date...(date + 1), askedAt: begin, answeredAt: end)
    }

    // MARK: The Admin key

    /// Checks the Admin key by listing the tokens of a user, who need not have any.
    private func adminKey() async -> Verdict {
        let start = MonotonicTime.now
        do throws(KakaoError) {
            let kakao = KakaoClient(settings: settings.api, client: client)
            _ = try await kakao.call(RetrievePushTokens(version: settings.pushVersion, userIDs: [1]))
            let time = (MonotonicTime.now - start).inMilliseconds
            return .ok("Kakao accepts it for the Push API \(settings.pushVersion.rawValue) (\(time))")
        } catch {
            return verdict(error)
        }
    }

    private func verdict(_ error: KakaoError) -> Verdict {
        let code: KakaoErrorCode?
        let message: String
        switch error.kind {
        case .unreachable(let error): return .wrong(error.remedy(certificate: settings.certificateRemedy))
        case .unrecognized(let response) where response.isTemporary:
            return .warning("\(error), so the key could not be checked: try again later")
        case .unrecognized: return .wrong("\(error): correct kakao.api_url, or find out what responds in Kakao's place")
        case .refused(_, let given, let text): (code, message) = (given, text)
        }
        switch (code, error.disposition) {
        case (.invalidCredential, _):
            if let address = Self.callerAddress(message) {
                return .wrong(
                    "Kakao rejects calls from \(address): add it to the app's allowed addresses in Kakao's console"
                )
            }
            return .wrong("\(error): \(adminKeyHint)copy the app's Admin key from Kakao's console")
        case (.featureDisabled, _), (.noPermission, _):
            return .wrong(
                "\(error): enable push notifications for the app, and allow this key to send them, in Kakao's console"
            )
        case (.apiTerminated, _):
            return .wrong("\(error): set kakao.push_version to \(settings.pushVersion == .v1 ? "v2" : "v1")")
        case (.invalidParameter, _):
            return .wrong("\(error): set up push for the app in Kakao's console, with its APNs and FCM keys")
        case (.suspended, _), (.accountBlocked, _):
            return .wrong("\(error): ask Kakao for the reason at devtalk.kakao.com")
        case (.paidQuotaExceeded, _), (_, .wait):
            return .warning("\(error): pushes wait until Kakao allows more; raise the quota in Kakao's console")
        case (_, .retry):
            return .warning("\(error), so the key could not be checked: try again later")
        default:
            return .wrong("\(error): check kakao.api_url and the key")
        }
    }

    /// A hint about the form of an Admin key that Kakao refuses; empty if the form is right.
    private var adminKeyHint: String {
        if settings.loginKeys.contains(settings.adminKey.revealed) { return "it is another key of the app; " }
        return KakaoSettings.problem(ofKey: settings.adminKey.revealed).map { "\($0); " } ?? ""
    }

    /// Returns the caller's address if Kakao refused the call because of it: `ip mismatched! callerIp=203.0.113.7`.
    ///
    /// `this machine` stands for an address that the message does not give, and `nil` means that another reason
    /// applies.
    private static func callerAddress(_ message: String) -> Substring? {
        guard message.contains("ip mismatched") else { return nil }
        guard let name = message.firstRange(of: "callerIp=") else { return "this machine" }
        let address = message[name.upperBound...].prefix { $0.isHexDigit || $0 == "." || $0 == ":" }
        // A full stop may follow the address.
        let end = address.last == "." ? address.dropLast() : address
        return end.isEmpty ? "this machine" : end
    }

    // MARK: The app id

    /// Checks the app id with a user's access token. No call with an Admin key returns the app id.
    private func appID() async -> Verdict {
        guard let accessToken else {
            guard let appID = settings.appID else {
                return .skipped("not set: access tokens of Kakao Login and /kakao/unlink are off")
            }
            return .skipped("\(appID) can be checked only with a user's access token: set KAKAO_ACCESS_TOKEN to one")
        }
        guard KakaoAccessTokens.isToken(accessToken.revealed) else {
            return .warning("the access token is malformed: get one by logging in to the app")
        }
        do throws(KakaoError) {
            let kakao = KakaoClient(settings: settings.api, client: client)
            let token = KakaoCredential.userToken(accessToken.revealed)
            let tokenAppID = try await kakao.call(AccessTokenInfo(), as: token).appID
            guard let appID = settings.appID else {
                return .warning("not set, but the access token belongs to app \(tokenAppID): set it")
            }
            guard appID == tokenAppID else {
                return .wrong(
                    "is \(appID), but the access token belongs to app \(tokenAppID): set it to this id if the token is your app's"
                )
            }
            return .ok("\(appID), which Kakao confirms for the access token")
        } catch {
            return .warning("the access token could not be checked: \(error); get a new one by logging in to the app")
        }
    }
}

extension KakaoChecks {
    // MARK: Kakao's addresses

    /// Checks Kakao's list of the addresses from which it calls, by fetching it.
    private func sourceAddresses() async -> Verdict {
        guard settings.sourceAddresses != .off else {
            return .skipped("off: the addresses from which calls with Kakao's credential come are not checked")
        }
        do throws(KakaoError) {
            let kakao = KakaoClient(settings: settings.api, client: client)
            return verdict(on: try await kakao.call(RetrieveAddresses(direction: .inbound)))
        } catch {
            guard error.code != .invalidCredential else {
                return .skipped("Kakao rejects the key: see kakao.admin_key")
            }
            return .warning(
                "\(error), so the addresses from which Kakao calls are unknown: no call is recorded or refused"
            )
        }
    }

    private func verdict(on list: RetrieveAddresses.Answer) -> Verdict {
        guard let addresses = KakaoAddresses(list) else {
            return .warning(
                "Kakao's list has no address that this version can read: no call is recorded or refused; update push-server"
            )
        }
        let policy = settings.sourceAddresses
        let networks = "Kakao calls from \(addresses.count) \(addresses.count == 1 ? "network" : "networks")"
        let text = "\(policy.rawValue): \(networks)\(Self.age(of: list.updatedDate))"
        guard addresses.unreadable == 0 else {
            let number = "\(addresses.unreadable) \(addresses.unreadable == 1 ? "entry" : "entries")"
            return .warning(
                "\(text), and \(number) of its list cannot be read, so that no call is refused and those from there are recorded: update push-server"
            )
        }
        guard policy != .refuse || hasTrustedProxies else {
            return .warning(
                "\(text), but without http.trusted_proxies no caller's address is certain, so calls from elsewhere are recorded and not refused"
            )
        }
        return .ok(text)
    }

    /// Returns the day of the list's latest change, in words that follow the number of networks; empty for anything but a day.
    private static func age(of updatedDate: String) -> String {
        guard updatedDate.utf8.count == 10, let day = Date(rfc3339: "\(updatedDate)T00:00:00Z") else { return "" }
        let days = Int(Date().timeIntervalSince(day)) / 86_400
        return ", changed last on \(updatedDate), \(days) \(days == 1 ? "day" : "days") ago"
    }
}

extension KakaoSettings {
    /// Whether Kakao is a sandbox, as with `push-server dev`: it has its own certificate, and is not on the Internet.
    var isSandbox: Bool { caCertificateFile != nil && WebAddress(apiURL).isPrivate }

    /// The remedy when Kakao's certificate is not trusted.
    var certificateRemedy: String {
        caCertificateFile == nil
            ? "install the system's certificates (ca-certificates) and check the clock; for the sandbox, set "
                + "kakao.ca_certificate_file"
            : "kakao.ca_certificate_file, which is for the sandbox, does not trust it; unset this setting for Kakao"
    }
}
