internal import EventLoop
internal import FoundationEssentials
internal import HTTPClient
internal import HTTPTypes
internal import KakaoAPI

/// Whether Kakao is reached, whether it lets this service call, and what it says of the app.
struct KakaoChecks: Sendable {
    let settings: Settings.Kakao
    let accessToken: Secret?
    let client: HTTPClient

    func findings() async -> [Finding] {
        let begin = Date()
        let response: HTTPClientResponse
        do throws(HTTPClientError) {
            response = try await client.send(HTTPClientRequest(url: settings.apiURL + "/"))
        } catch {
            return [Finding(.wrong, "kakao.api_url", error.remedy(certificate: settings.certificateRemedy))]
                + ["clock.kakao", "kakao.admin_key", "kakao.app_id"].map {
                    Finding(.skipped, $0, "kakao.api_url is not reached")
                }
        }
        let end = Date()
        return [
            reached(in: .seconds(end.timeIntervalSince(begin))), clock(response, begin, end), await adminKey(),
            await appID(),
        ]
    }

    private func reached(in time: Duration) -> Finding {
        let text = "\(settings.apiURL) answered in \(time.inMilliseconds), making the connection included"
        guard settings.apiURL.hasPrefix("http://"), !WebAddress(settings.apiURL).isLoopback else {
            return Finding(.ok, "kakao.api_url", text)
        }
        return Finding(
            .warning,
            "kakao.api_url",
            "the Admin key goes there in clear, for anybody on the way: use https://"
        )
    }

    private func clock(_ response: HTTPClientResponse, _ begin: Date, _ end: Date) -> Finding {
        let check = ClockCheck(subject: "clock.kakao", other: "Kakao's clock")
        guard let seconds = response.headerFields[.date].flatMap({ HTTPDate.unixSeconds($0) }) else {
            return Finding(.skipped, check.subject, "the answer of kakao.api_url has no date")
        }
        let date = Date(timeIntervalSince1970: Double(seconds))
        return check.finding(date...(date + 1), askedAt: begin, answeredAt: end)
    }

    // MARK: The Admin key

    /// Looks a user's phones up, which no user has to have.
    private func adminKey() async -> Finding {
        let start = MonotonicTime.now
        do throws(KakaoError) {
            _ = try await KakaoPushAPI(settings: settings.api, client: client).tokens(userIDs: [1])
            let time = (MonotonicTime.now - start).inMilliseconds
            return Finding(
                .ok,
                "kakao.admin_key",
                "Kakao accepts it, for the Push API \(settings.pushVersion.rawValue) too (\(time))"
            )
        } catch {
            let (state, remedy) = remedy(error)
            return Finding(state, "kakao.admin_key", remedy)
        }
    }

    private func remedy(_ error: KakaoError) -> (Finding.State, String) {
        let code: KakaoErrorCode?
        let message: String
        switch error.kind {
        case .unreachable(let error): return (.wrong, error.remedy(certificate: settings.certificateRemedy))
        case .badAnswer: return (.wrong, "what answers is not Kakao's Push API: mend kakao.api_url")
        case .refused(_, let given, let text): (code, message) = (given, text)
        }
        switch (code, error.disposition) {
        case (.invalidCredential, _):
            if let address = Self.callerAddress(message) {
                return (
                    .wrong,
                    "Kakao lets no call in from \(address): add it to the addresses that the app allows, in Kakao's console"
                )
            }
            return (.wrong, "\(error): \(lookOfAdminKey)copy the app's Admin key from Kakao's console")
        case (.featureDisabled, _), (.noPermission, _):
            return (
                .wrong,
                "\(error): switch push notifications on for the app, and allow them to this key, in Kakao's console"
            )
        case (.apiTerminated, _):
            return (.wrong, "\(error): set kakao.push_version to \(settings.pushVersion == .v1 ? "v2" : "v1")")
        case (.invalidParameter, _):
            return (.wrong, "\(error): set push up for the app, with its keys of APNs and FCM, in Kakao's console")
        case (.suspended, _), (.accountBlocked, _):
            return (.wrong, "\(error): ask Kakao why, at devtalk.kakao.com")
        case (.paidQuotaExceeded, _), (_, .wait):
            return (.warning, "\(error): pushes wait until Kakao allows more; raise the quota in Kakao's console")
        case (_, .retry):
            return (.warning, "\(error), so that it is not known: ask again later")
        default:
            return (.wrong, "\(error): see that kakao.api_url and the key are right")
        }
    }

    /// What can be seen of a key that Kakao refuses.
    private var lookOfAdminKey: String {
        if settings.loginKeys.contains(settings.adminKey.revealed) { return "it is another key of the app; " }
        return KeyChecks.isKakaoKey(settings.adminKey.revealed) ? "" : "it is not 32 hexadecimal digits, as they are; "
    }

    /// Where Kakao has seen the call come from, if that is why it was refused: `ip mismatched! callerIp=203.0.113.7`.
    private static func callerAddress(_ message: String) -> Substring? {
        guard message.contains("ip mismatched") else { return nil }
        guard let name = message.firstRange(of: "callerIp=") else { return "this machine" }
        let address = message[name.upperBound...].prefix { $0.isHexDigit || $0 == "." || $0 == ":" }
        // A full stop may follow.
        let end = address.last == "." ? address.dropLast() : address
        return end.isEmpty ? "this machine" : end
    }

    // MARK: The app's number

    /// No call with an Admin key tells of which app it is; one with a user's access token does.
    private func appID() async -> Finding {
        let subject = "kakao.app_id"
        guard let accessToken else {
            guard let appID = settings.appID else {
                return Finding(.skipped, subject, "not set: no access tokens of Kakao Login, no /kakao/unlink")
            }
            return Finding(
                .skipped,
                subject,
                "only a user's access token tells whether \(appID) is the app: put one into KAKAO_ACCESS_TOKEN"
            )
        }
        guard KakaoAccessTokens.isToken(accessToken.revealed) else {
            return Finding(
                .warning,
                subject,
                "what was given as an access token is none: get one at a log-in to the app"
            )
        }
        do throws(KakaoError) {
            let api = KakaoUserAPI(settings: settings.api, client: client)
            let tokenAppID = try await api.accessTokenInfo(accessToken.revealed).appID
            guard let appID = settings.appID else {
                return Finding(.warning, subject, "not set, and the access token is of the app \(tokenAppID): set it")
            }
            guard appID == tokenAppID else {
                return Finding(
                    .wrong,
                    subject,
                    "is \(appID), and the access token is of the app \(tokenAppID): set it to that, if the token is your app's"
                )
            }
            return Finding(.ok, subject, "\(appID), as Kakao says of the access token")
        } catch {
            return Finding(
                .warning,
                subject,
                "the access token says nothing: \(error); get a new one at a log-in to the app"
            )
        }
    }
}

extension Settings.Kakao {
    /// What to do when Kakao's certificate is not trusted.
    var certificateRemedy: String {
        caCertificateFile == nil
            ? "install the system's certificates (ca-certificates), and see that the clock is right; the sandbox's belong into "
                + "kakao.ca_certificate_file"
            : "it is not among those of kakao.ca_certificate_file, which is for the sandbox: unset it for Kakao"
    }
}
