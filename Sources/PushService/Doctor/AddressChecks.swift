internal import Dispatch
internal import EventLoop
internal import HTTPClient
internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import Postgres

/// Whether Kakao can call this service: its address is public, and this server answers there over HTTPS.
struct AddressChecks: Sendable {
    /// Kakao's own calls go there; one without the Admin key is refused, and stores nothing.
    private static let callbackPath = "/kakao/link/callback"

    let settings: Settings
    /// Trusts as Kakao's servers do.
    let client: HTTPClient

    private var url: String? {
        guard case .given(let url) = settings.publicURL else { return nil }
        return url
    }

    /// Whether the address is one that Kakao can call.
    func publicURL() async -> Finding {
        guard let url else {
            return finding(.skipped, "not set: nobody knows where Kakao calls this server")
        }
        let address = WebAddress(url)
        guard !address.host.isEmpty else { return finding(.wrong, "\(url) is no address: https://push.example.com") }
        guard address.isHTTPS else { return finding(.wrong, "Kakao calls https:// only: have a certificate made") }
        guard !address.isPrivateName else {
            return finding(.wrong, "Kakao does not know \(address.host): use a public name")
        }
        let numbers = await Self.lookUp(address.host)
        guard !numbers.isEmpty else {
            return finding(.wrong, "\(address.host) has no address: enter it into your domain")
        }
        if let number = numbers.first(where: { !WebAddress.isPublic($0) }) {
            return finding(
                .wrong,
                "Kakao cannot reach \(address.host), which is \(number) here: give it a public address, or ask where its name "
                    + "is looked up as from outside"
            )
        }
        return finding(.ok, "\(numbers.joined(separator: ", ")); for Kakao's console: \(consoleAddresses(url))")
    }

    private func finding(_ state: Finding.State, _ text: String) -> Finding {
        Finding(state, "http.public_url", text)
    }

    /// What has to be entered at Kakao.
    private func consoleAddresses(_ url: String) -> String {
        var addresses = ["\(url)\(Self.callbackPath) (KakaoTalk Share)"]
        if settings.kakao.appID != nil { addresses.append("\(url)/kakao/unlink (unlink)") }
        if settings.kakao.restAPIKey != nil { addresses.append("\(url)/kakao/account-events (account status)") }
        return addresses.joined(separator: ", ")
    }

    private static func lookUp(_ host: String) async -> [String] {
        await withCheckedContinuation { continuation in
            EventLoop.blocking.async {
                let found = try? HostAddresses.lookUp([host]).get()
                continuation.resume(returning: found?.first.flatMap(\.self) ?? [])
            }
        }
    }

    /// Whether this server answers there.
    func callbacks() async -> Finding {
        let subject = "callbacks"
        guard let url else { return Finding(.skipped, subject, "http.public_url is not set") }
        // Only this server answers with the id that it was given, and with Kakao's code.
        let id = RandomKey.hexadecimal(words: 1)
        let request = HTTPClientRequest(url: url + Self.callbackPath, headerFields: [.requestID: id])
        let start = MonotonicTime.now
        do throws(HTTPClientError) {
            let response = try await client.send(request)
            let time = (MonotonicTime.now - start).inMilliseconds
            let isOurs =
                response.headerFields[.requestID] == id
                && (try? JSONValue(parsing: response.body, maximumDepth: 8))?["code"]?.integer != nil
            let (state, text) = Self.verdict(response.status, isOurs: isOurs)
            return Finding(state, subject, isOurs ? "\(text) (\(time))" : text)
        } catch {
            switch error.code {
            case .cannotConnect, .timedOut, .connectionLost:
                return Finding(
                    .warning,
                    subject,
                    "\(error.message): start push-server and what stands before it, then ask again; or let port 443 in"
                )
            default:
                let remedy = "install a certificate that everybody trusts, and its chain"
                return Finding(.wrong, subject, error.remedy(certificate: remedy))
            }
        }
    }

    private static func verdict(_ status: Int, isOurs: Bool) -> (Finding.State, String) {
        switch (status, isOurs) {
        case (401, true): (.ok, "push-server answers there")
        case (429, true), (500..., true): (.warning, "push-server answers there, with \(status): ask it for /readyz")
        case (502, _), (503, _), (504, _):
            (.warning, "what stands before push-server answers \(status): start push-server, then ask again")
        case (300..<400, _): (.wrong, "it redirects, and Kakao does not follow: set http.public_url to where it leads")
        default:
            (
                .wrong,
                "something else answers \(status) there: have \(callbackPath) and its like passed on to push-server"
            )
        }
    }
}
