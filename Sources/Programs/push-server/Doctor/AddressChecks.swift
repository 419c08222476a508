import Accounts
import Crypto
import Dispatch
import Endpoints
import EventLoop
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import Net
import Server
import Settings

/// Checks that Kakao can call this service: its address is public, and this server responds there over HTTPS.
struct AddressChecks: Sendable {
    /// A path that Kakao calls.
    private static let callbackPath = "/kakao/link/callback"

    let settings: Settings
    /// A client that trusts the system's certificates, as Kakao's servers do.
    let client: HTTPClient

    private var url: String? {
        guard case .given(let url) = settings.publicURL else { return nil }
        return url
    }

    /// Checks that `http.public_url` is an HTTPS address whose host resolves to public addresses only.
    func publicURL() async -> Verdict {
        guard let url else {
            return .skipped("not set: the address that Kakao calls is unknown")
        }
        let address = WebAddress(url)
        guard !address.host.isEmpty else {
            return .wrong("\(url) is not a URL such as https://push.example.com")
        }
        guard !settings.kakao.isSandbox || !address.isPrivate else {
            return .ok("\(url), for the sandbox at \(settings.kakao.apiURL): Kakao itself cannot call it")
        }
        guard address.isHTTPS else {
            return .wrong("Kakao calls https:// only: install a certificate and use an https:// URL")
        }
        guard !address.isPrivateName else {
            return .wrong("Kakao cannot resolve the private name \(address.host): use a public name")
        }
        let numbers = await Self.lookUp(address.host)
        guard !numbers.isEmpty else {
            return .wrong("\(address.host) does not resolve: add it to your domain's DNS records")
        }
        if let number = numbers.first(where: { !WebAddress.isPublic($0) }) {
            return .wrong(
                "Kakao cannot reach \(address.host), which resolves to \(number) here: use a public address, or run doctor "
                    + "where the name resolves to it"
            )
        }
        let addresses = ConsoleField.all.compactMap { field in
            field.address(settings, at: url).map { "\($0) (\(field.name))" }
        }
        return .ok("\(numbers.joined(separator: ", ")); enter in Kakao's console: \(addresses.joined(separator: ", "))")
    }

    private static func lookUp(_ host: String) async -> [String] {
        (try? await NameResolver.system.addresses(of: host).get())?.map(\.host) ?? []
    }

    /// Checks that this server responds at `http.public_url`, and not another one.
    func callbacks() async -> Verdict {
        guard let url else { return .skipped("http.public_url is not set") }
        do throws(HTTPClientError) {
            // It needs no credential, and so is not counted as a rejected one.
            let options = try await probe(url, .options)
            if options.isOurs { return options.verdict }
            // A proxy may answer OPTIONS itself. Without the Admin key, this one is refused and stores nothing.
            return try await probe(url, .get).verdict
        } catch {
            switch error.code {
            case .cannotConnect, .timedOut, .connectionLost:
                return .warning(
                    "\(error.message): start push-server and its proxy, or open port 443, then run doctor again"
                )
            default:
                return .wrong(error.remedy(certificate: "install a publicly trusted certificate with its chain"))
            }
        }
    }

    /// The response to a request to a path that Kakao calls.
    private struct Probe {
        let isOurs: Bool
        let verdict: Verdict
    }

    private func probe(_ url: String, _ method: HTTPRequest.Method) async throws(HTTPClientError) -> Probe {
        let id = RandomKey.hexadecimal(words: 1)
        let request = HTTPClientRequest(
            method: method,
            url: url + Self.callbackPath,
            headerFields: [.requestID: id]
        )
        let start = MonotonicTime.now
        let response = try await client.send(request)
        let time = (MonotonicTime.now - start).inMilliseconds
        // Only this server echoes the request's id and lists the methods of the path, or responds with a numeric `code`.
        let methods = response.headerFields[.allow].map { Set($0.split(separator: ", ")) }
        let isOurs =
            response.headerFields[.requestID] == id
            && (method == .options && methods?.isSuperset(of: ["GET", "POST"]) == true
                || (try? JSONValue(parsing: response.body, maximumDepth: 8))?["code"]?.integer != nil)
        let verdict = Self.verdict(response.status, isOurs: isOurs)
        return Probe(
            isOurs: isOurs,
            verdict: isOurs ? Verdict(state: verdict.state, text: "\(verdict.text) (\(time))") : verdict
        )
    }

    /// Checks that `http.public_url` does not lead to the port for operators.
    func operatorPort() async -> Verdict {
        guard settings.operatorPort != nil else {
            return .skipped("not set: operators use the port that Kakao and apps call")
        }
        guard let url else { return .skipped("http.public_url is not set") }
        do throws(HTTPClientError) {
            let response = try await client.send(HTTPClientRequest(url: url + OpenAPIRoutes.path))
            guard response.status != 200 else {
                return .wrong("http.public_url leads to the port for operators: forward it to http.port instead")
            }
            return .ok("http.public_url does not lead to it")
        } catch {
            return .skipped("http.public_url does not respond: see callbacks")
        }
    }

    private static func verdict(_ status: Int, isOurs: Bool) -> Verdict {
        switch (status, isOurs) {
        // 403: with `kakao.source_addresses`, this machine is not Kakao.
        case (204, true), (401, true), (403, true): .ok("push-server responds at http.public_url")
        case (429, true), (500..., true): .warning("push-server responds with status \(status): check its /readyz")
        case (502, _), (503, _), (504, _):
            .warning("the proxy of push-server responds with status \(status): start push-server, then try again")
        case (300..<400, _): .wrong("it redirects, which Kakao does not follow: set http.public_url to the target")
        default:
            .wrong(
                "another server responds with status \(status): forward \(callbackPath) and the other paths of Kakao to push-server"
            )
        }
    }
}
