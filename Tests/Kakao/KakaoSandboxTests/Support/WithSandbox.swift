import EventLoop
import HTTPClient
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import Net
import Testing

/// A running sandbox, and a client that calls it as a push server does.
struct Fixture: Sendable {
    let sandbox: KakaoSandbox
    let client: HTTPClient

    /// The client of Kakao's API that the server has.
    var kakao: KakaoClient {
        KakaoClient(
            settings: KakaoAPISettings(
                apiURL: sandbox.url,
                authURL: sandbox.url,
                adminKey: KakaoKey("sandbox-admin-key")
            ),
            client: client
        )
    }

    /// Calls Kakao's API with the Admin key and a form, or with a query for GET and DELETE.
    ///
    /// - Parameter ka: The header field `KA`, which calls with an app key have.
    func call(
        _ path: String,
        _ fields: KeyValuePairs<String, String> = [:],
        method: HTTPRequest.Method = .post,
        authorization: String? = "KakaoAK sandbox-admin-key",
        ka: String? = nil
    ) async throws -> HTTPClientResponse {
        var form = FormBody()
        for (name, value) in fields { form.append(name, value) }
        var request = HTTPClientRequest(method: method, url: sandbox.url + path)
        request.headerFields[.authorization] = authorization
        if let ka, let name = HTTPField.Name("KA") { request.headerFields[name] = ka }
        if method == .get || method == .delete {
            request.url += "?" + String(decoding: form.bytes, as: UTF8.self)
        } else {
            request.headerFields[.contentType] = FormBody.contentType
            request.body = form.bytes
        }
        return try await client.send(request)
    }

    /// Returns an access token of a user as a credential.
    func token(of userID: Int64) throws -> KakaoCredential {
        .userToken(try #require(sandbox.accessToken(of: userID)))
    }

    /// Returns status and code of a call that Kakao refuses, with Kakao's words.
    ///
    /// - Parameter credential: The Admin key for user 7, unless another is given.
    func refusal<Call: KakaoCall>(
        of call: Call,
        as credential: KakaoCredential = .adminKeyForUser(7)
    ) async throws -> String {
        do throws(KakaoError) {
            _ = try await kakao.call(call, as: credential)
            return "accepted"
        } catch {
            guard case .refused(let status, let code, let message) = error.kind else { return "\(error)" }
            return "\(status) \(code?.rawValue ?? 0) \(message)"
        }
    }

    /// Returns status and code of a call that Kakao refuses.
    func refusalCode<Call: KakaoCall>(
        of call: Call,
        as credential: KakaoCredential,
        uploads: [KakaoUpload] = []
    ) async throws -> String {
        do throws(KakaoError) {
            _ = try await kakao.call(call, as: credential, uploads: uploads)
            return "accepted"
        } catch {
            guard case .refused(let status, let code, _) = error.kind else { return "\(error)" }
            return "\(status) \(code?.rawValue ?? 0)"
        }
    }

    /// Calls `/sandbox/*`.
    func control(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ body: JSONValue? = nil
    ) async throws -> HTTPClientResponse {
        let request = HTTPClientRequest(method: method, url: sandbox.url + path, body: body?.bytes() ?? [])
        return try await client.send(request)
    }

    /// Registers a token for a device that is named after the token.
    func register(
        _ userID: Int64,
        _ token: String,
        type: String = "gcm",
        version: String = "v1"
    ) async throws -> HTTPClientResponse {
        try await call(
            "/\(version)/push/register",
            ["uuid": String(userID), "device_id": "device of \(token)", "push_type": type, "push_token": token]
        )
    }

    func send(
        _ uuids: String,
        _ message: JSONValue,
        version: String = "v1",
        bypass: String? = nil
    ) async throws -> HTTPClientResponse {
        guard let bypass else {
            return try await call("/\(version)/push/send", ["uuids": uuids, "push_message": message.description])
        }
        let fields: KeyValuePairs = ["uuids": uuids, "push_message": message.description, "bypass": bypass]
        return try await call("/\(version)/push/send", fields)
    }
}

extension HTTPClientResponse {
    var text: String { String(decoding: body, as: UTF8.self) }

    var json: JSONValue? { try? JSONValue(parsing: body) }

    /// Kakao's error code.
    var code: Int64? { json?["code"]?.integer }
}

/// Runs a sandbox for a test. It has one loop, so that requests are served in order of arrival.
func withSandbox<Result>(
    _ settings: KakaoSandboxSettings = KakaoSandboxSettings(),
    // Longer than a busy machine takes for any request, also for one that generates a key.
    client clientSettings: HTTPClientSettings = HTTPClientSettings(totalTimeout: .seconds(60)),
    _ body: (Fixture) async throws -> Result
) async throws -> Result {
    let group = try EventLoopGroup(count: 1)
    defer { group.shutdown() }
    let sandbox = try KakaoSandbox(settings: settings, loops: group)
    sandbox.start()
    let client = HTTPClient(settings: clientSettings, loop: group.loops[0])
    do {
        let result = try await body(Fixture(sandbox: sandbox, client: client))
        await client.shutdown()
        await sandbox.shutdown()
        return result
    } catch {
        await client.shutdown()
        await sandbox.shutdown()
        throw error
    }
}

/// Sends a request that is expected to fail. Returns its error, or `nil` if it got a response.
func failure(_ body: () async throws -> HTTPClientResponse) async -> HTTPClientError? {
    do {
        _ = try await body()
        return nil
    } catch {
        return error as? HTTPClientError
    }
}
