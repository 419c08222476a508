import EventLoop
package import HTTPClient
import HTTPServer
package import HTTPTypes
package import JSON
import Net
import Server
import TestSupport
package import Testing

/// The keys of the test servers.
package enum Keys {
    package static let `operator` = "operator-key-of-the-tests-0123456789"
    /// An Admin key in the form of Kakao's: 32 hexadecimal digits.
    package static let admin = "0123456789abcdef0123456789abcdef"
    package static let feedback = "feedback-secret-of-the-tests"
}

/// A client of a server, in the role of an operator, an app's backend or Kakao.
package struct TestClient: Sendable {
    package let url: String
    package var authorization: String?
    package var headerFields: HTTPFields
    /// The file of certificates to trust; `nil` for those of the system.
    package var caCertificateFile: String?
    /// Whether responses are compared with the OpenAPI document; `false` for paths that only Kakao or the sandbox has.
    package var checksContract: Bool

    package init(
        url: String,
        authorization: String? = "Bearer \(Keys.operator)",
        headerFields: HTTPFields = HTTPFields(),
        caCertificateFile: String? = nil,
        checksContract: Bool = true
    ) {
        self.url = url
        self.authorization = authorization
        self.headerFields = headerFields
        self.caCertificateFile = caCertificateFile
        self.checksContract = checksContract
    }

    private static let client = Result { try makeClient(caCertificateFile: nil) }

    private static func makeClient(caCertificateFile: String?) throws -> HTTPClient {
        let settings = HTTPClientSettings(
            totalTimeout: .seconds(30),
            maximumConnections: 64,
            trust: try .reading(caCertificateFile)
        )
        return HTTPClient(settings: settings, loop: try Shared.loop)
    }

    /// Returns a copy with another `Authorization`.
    package func with(_ authorization: String?) -> TestClient {
        var caller = self
        caller.authorization = authorization
        return caller
    }

    /// Returns a copy whose requests have an address in `X-Forwarded-For`, as a proxy sends them.
    package func from(_ address: String) -> TestClient {
        var caller = self
        caller.headerFields[.forwardedFor] = address
        return caller
    }

    package func get(_ path: String, _ query: KeyValuePairs<String, String> = [:]) async throws -> HTTPClientResponse {
        let query = query.isEmpty ? "" : "?" + String(decoding: Self.form(query), as: UTF8.self)
        return try await send(HTTPClientRequest(url: url + path + query))
    }

    package func post(_ path: String, form: KeyValuePairs<String, String>) async throws -> HTTPClientResponse {
        try await post(path, Self.form(form), type: FormBody.contentType)
    }

    package func post(_ path: String, json: JSONValue) async throws -> HTTPClientResponse {
        try await post(path, json.bytes(), type: "application/json")
    }

    package func post(_ path: String, _ body: [UInt8] = [], type: String? = nil) async throws -> HTTPClientResponse {
        var request = HTTPClientRequest(method: .post, url: url + path, body: body)
        request.headerFields[.contentType] = type
        return try await send(request)
    }

    package func put(_ path: String, _ body: [UInt8], type: String? = "text/plain") async throws -> HTTPClientResponse {
        var request = HTTPClientRequest(method: .put, url: url + path, body: body)
        request.headerFields[.contentType] = type
        return try await send(request)
    }

    package func delete(_ path: String) async throws -> HTTPClientResponse {
        try await send(HTTPClientRequest(method: .delete, url: url + path))
    }

    private func send(_ request: HTTPClientRequest) async throws -> HTTPClientResponse {
        var request = request
        request.headerFields.append(contentsOf: headerFields)
        request.headerFields[.authorization] = authorization
        // Each call has its own connection, so the calls spread over the server's loops, and no open connection delays
        // its shutdown.
        request.headerFields[.connection] = "close"
        // A client of its own shuts down when it is released.
        let client = try caCertificateFile.map { try Self.makeClient(caCertificateFile: $0) } ?? Self.client.get()
        let response = try await client.send(request)
        if checksContract {
            Contract.check(response, to: request.method, String(request.url.dropFirst(url.count)))
        }
        return response
    }

    private static func form(_ fields: KeyValuePairs<String, String>) -> [UInt8] {
        var form = FormBody()
        for (name, value) in fields { form.append(name, value) }
        return form.bytes
    }
}

extension HTTPClientResponse {
    package var text: String { String(decoding: body, as: UTF8.self) }

    package var json: JSONValue? { try? JSONValue(parsing: body) }

    /// The name of a problem: the last part of its type.
    package var problem: String? { json?["type"]?.string?.split(separator: ":").last.map(String.init) }

    /// Whether a call in Kakao's format is accepted and stored, while the call to Kakao is pending.
    package var isPending: Bool { status == 200 && headerFields[.state] == "pending" }

    /// Who has answered a relayed call, or caused a problem.
    package var answerer: String? { headerFields[.answeredBy] }

    /// The field that a problem names.
    package var field: String? { json?["field"]?.string }
}

// The most frequent calls of the service's endpoints.
extension TestClient {
    /// Registers a device.
    package func register(
        _ userID: Int64,
        _ token: String,
        device: String = "phone",
        type: String = "gcm",
        version: String = "v1"
    ) async throws -> HTTPClientResponse {
        try await post(
            "/\(version)/push/register",
            form: ["uuid": String(userID), "device_id": device, "push_type": type, "push_token": token]
        )
    }

    package func deregister(
        _ userID: Int64,
        device: String = "phone",
        type: String = "gcm"
    ) async throws -> HTTPClientResponse {
        try await post(
            "/v1/push/deregister",
            form: ["uuid": String(userID), "device_id": device, "push_type": type]
        )
    }

    /// Sends to users and returns the path of the push.
    package func push(_ userIDs: [Int64], marker: String = "", version: String = "v1") async throws -> String {
        let member = version == "v1" ? "for_gcm" : "for_fcm"
        let message: JSONValue = .object([member: ["custom_field": ["marker": .string(marker)]]])
        let response = try await post(
            "/\(version)/push/send",
            form: ["uuids": "\(userIDs)", "push_message": message.description]
        )
        guard response.status == 200, let path = response.headerFields[.location] else {
            throw Refused(status: response.status, body: response.text)
        }
        return path
    }

    /// Returns the state of a push.
    package func state(_ push: String) async throws -> String {
        try await get(push).json?["state"]?.string ?? ""
    }

    /// Waits until a push is done, as ``waitFor(_:_:within:sourceLocation:)`` does.
    package func waitUntilDone(
        _ push: String,
        within limit: Duration = .seconds(60),
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        try await waitFor("done", push, within: limit, sourceLocation: sourceLocation)
    }

    package struct Refused: Error {
        package let status: Int
        package let body: String
    }
}

extension HTTPField.Name {
    package static let state = unvalidated("X-State")
}
