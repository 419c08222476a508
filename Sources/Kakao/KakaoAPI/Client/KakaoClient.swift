import EventLoop
package import HTTPClient
package import HTTPTypes
import Net

/// Kakao's REST API, called on one loop.
///
/// This client does not retry; only `HTTPClient` may send a call again if its kept-alive connection is lost. The caller
/// handles errors by ``KakaoError/disposition``.
package struct KakaoClient: Sendable {
    package let settings: KakaoAPISettings
    private let client: HTTPClient
    private let budget: KakaoBudget
    private let apiURL: String
    private let authURL: String
    private let onCall: @Sendable (KakaoCallReport) -> Void

    /// - Parameters:
    ///   - client: The HTTP client of the loop that makes the calls. Its creator shuts it down.
    ///   - budget: The purpose of the calls, on which the number of connections depends.
    ///   - onCall: Called for every finished call, before its caller resumes.
    package init(
        settings: KakaoAPISettings,
        client: HTTPClient,
        budget: KakaoBudget = .requests,
        onCall: @escaping @Sendable (KakaoCallReport) -> Void = { _ in }
    ) {
        self.settings = settings
        self.client = client
        self.onCall = onCall
        self.budget = budget
        func withoutSlash(_ url: String) -> String { url.hasSuffix("/") ? String(url.dropLast()) : url }
        apiURL = withoutSlash(settings.apiURL)
        authURL = withoutSlash(settings.authURL)
    }

    /// Makes a call and returns its answer.
    ///
    /// - Parameters:
    ///   - credential: A credential that the call accepts.
    ///   - uploads: The files of a call that uploads some.
    ///   - latestStart: See ``HTTPClientRequest/latestStart``.
    ///   - timeout: The time limit of the call; `nil` for that of its declaration.
    /// - Throws: ``KakaoError``
    package func call<Call: KakaoCall>(
        _ call: Call,
        as credential: KakaoCredential = .adminKey,
        uploads: [KakaoUpload] = [],
        startingBefore latestStart: UInt64? = nil,
        timeout: Duration? = nil
    ) async throws(KakaoError) -> Call.Answer {
        let operation = Call.operation
        var request = request(of: call, operation, as: credential, uploads)
        request.latestStart = latestStart
        if let timeout { request.totalTimeout = timeout }
        var answer: Call.Answer?
        try await exchange(
            request,
            (operation.name, operation.family, operation.host, operation.sendsJSON),
            credential.kind,
            secrets: { self.secrets(of: call, credential) },
            isValid: { response in
                answer = operation.answer.decode(response.body)
                return answer != nil
            }
        )
        guard let answer else { preconditionFailure("an exchange without an answer throws") }
        return answer
    }

    /// Makes a call and returns Kakao's response as it is, so that members which Kakao adds later reach the caller too. It is
    /// JSON, or empty if the call's answer may be. Of a call that must not be repeated, it is as declared: the JSON of a proxy would
    /// pass for a message that was sent, or for an event that was created.
    ///
    /// - Throws: ``KakaoError``, also if Kakao responds with an error.
    package func relay<Call: KakaoCall>(
        _ call: Call,
        as credential: KakaoCredential,
        uploads: [KakaoUpload] = []
    ) async throws(KakaoError) -> HTTPClientResponse {
        let operation = Call.operation
        let request = request(of: call, operation, as: credential, uploads)
        return try await exchange(
            request,
            (operation.name, operation.family, operation.host, operation.sendsJSON),
            credential.kind,
            secrets: { self.secrets(of: call, credential) },
            isValid: { response in
                let answer = operation.answer
                if !operation.isIdempotent { return answer.decode(response.body) != nil }
                return response.body.isEmpty ? answer.admitsEmpty : reportsNoError(response.body)
            }
        )
    }

    /// Returns the request of a call with its credential and its secret parameters masked, for display.
    package func shownRequest<Call: KakaoCall>(
        of call: Call,
        as credential: KakaoCredential = .adminKey
    ) -> HTTPClientRequest {
        var request = request(of: call, Call.operation, as: credential, [], maskingSecrets: true)
        if let shown = request.headerFields[.authorization]?.split(separator: " ").first {
            request.headerFields[.authorization] = "\(shown) ***"
        }
        return request
    }

    /// Sends a request, and reports the call. It is not generic, because generic code costs a fifth of a registration.
    ///
    /// - Parameters:
    ///   - secrets: Returns the secrets of the request, which errors must not contain.
    ///   - isValid: Whether the body of a successful response matches Kakao's documentation.
    @discardableResult
    private func exchange(
        _ request: HTTPClientRequest,
        _ operation: (name: String, family: KakaoFamily, host: KakaoHost, sendsJSON: Bool),
        _ credential: KakaoCredential.Kind,
        secrets: () -> [String],
        isValid: (HTTPClientResponse) -> Bool
    ) async throws(KakaoError) -> HTTPClientResponse {
        let start = MonotonicTime.now
        func report(_ error: KakaoError?) {
            let duration = MonotonicTime.now - start
            onCall(
                KakaoCallReport(
                    name: operation.name,
                    family: operation.family,
                    budget: budget,
                    credential: credential,
                    duration: duration,
                    error: error
                )
            )
        }
        do throws(KakaoError) {
            let response: HTTPClientResponse
            do throws(HTTPClientError) {
                response = try await client.send(request)
            } catch {
                throw KakaoError(kind: .unreachable(error), credential: credential)
            }
            guard (200..<300).contains(response.status), isValid(response) else {
                throw KakaoError(
                    response,
                    from: operation.host,
                    credential,
                    secrets: secrets(),
                    hidesJSON: operation.sendsJSON
                )
            }
            report(nil)
            return response
        } catch {
            report(error)
            throw error
        }
    }

    // MARK: Requests

    private func request<Call: KakaoCall>(
        of call: Call,
        _ operation: KakaoOperation<Call>,
        as credential: KakaoCredential,
        _ uploads: [KakaoUpload],
        maskingSecrets: Bool = false
    ) -> HTTPClientRequest {
        precondition(operation.credentials.contains(credential.kind.declared), "\(operation.name): \(credential.kind)")
        var request = HTTPClientRequest(
            method: operation.methods[0],
            url: (operation.host == .api ? apiURL : authURL) + operation.path(of: call),
            isIdempotent: operation.isIdempotent,
            totalTimeout: operation.timeout,
            connections: budget.connections
        )
        if let part = operation.uploadPart {
            request.headerFields = headerFields(of: credential)
            MultipartForm(fields: operation.texts(of: call) + target(of: credential), part, uploads).add(to: &request)
            return request
        }
        if operation.sendsJSON {
            request.headerFields = headerFields(of: credential)
            request.headerFields[.contentType] = "application/json;charset=UTF-8"
            request.body = operation.json(of: call)
            return request
        }
        var form = operation.form(of: call, maskingSecrets: maskingSecrets)
        for (name, text) in target(of: credential) { form.append(name, text) }
        if operation.sendsQuery {
            request.headerFields = headerFields(of: credential)
            if !form.bytes.isEmpty { request.url += "?" + String(decoding: form.bytes, as: UTF8.self) }
        } else {
            request.body = form.bytes
            if case .adminKey = credential {
                request.headerFields = settings.adminKey.form
            } else {
                request.headerFields = headerFields(of: credential)
                request.headerFields[.contentType] = FormBody.contentType
            }
        }
        return request
    }

    private func headerFields(of credential: KakaoCredential) -> HTTPFields {
        switch credential {
        case .adminKey, .adminKeyForUser: return [.authorization: "KakaoAK \(settings.adminKey.unmasked)"]
        case .userToken(let token): return [.authorization: "Bearer \(token)"]
        case .restAPIKey:
            guard let key = settings.restAPIKey else { preconditionFailure("there is no REST API key") }
            return [.authorization: "KakaoAK \(key.unmasked)"]
        case .appKey:
            guard let app = settings.app else { preconditionFailure("there is no app key") }
            return headerFields(of: app)
        case .appKeyOfCaller(let app): return headerFields(of: app)
        case .none: return [:]
        }
    }

    private func headerFields(of app: KakaoAppKey) -> HTTPFields {
        [.authorization: "KakaoAK \(app.key.unmasked)", .ka: app.ka]
    }

    /// Returns the secrets of a request: those of its parameters, its credential, and the server's keys.
    private func secrets<Call: KakaoCall>(of call: Call, _ credential: KakaoCredential) -> [String] {
        let own: String? =
            switch credential {
            case .userToken(let token): token
            case .appKeyOfCaller(let app): app.key.unmasked
            case .adminKey, .adminKeyForUser, .restAPIKey, .appKey, .none: nil
            }
        let keys = [
            own, settings.adminKey.unmasked, settings.restAPIKey?.unmasked, settings.app?.key.unmasked,
        ]
        return Call.operation.secrets(of: call) + keys.compactMap(\.self)
    }

    /// The parameters that name the user of a call with the Admin key.
    private func target(of credential: KakaoCredential) -> [(name: String, text: String)] {
        guard case .adminKeyForUser(let userID) = credential else { return [] }
        return [("target_id_type", "user_id"), ("target_id", String(userID))]
    }
}

/// A finished call to Kakao, for metrics.
package struct KakaoCallReport: Sendable {
    /// The name of the call: see ``KakaoOperation/name``.
    package let name: String
    package let family: KakaoFamily
    package let budget: KakaoBudget
    package let credential: KakaoCredential.Kind
    /// The time since the call was requested, including the wait for a connection.
    package let duration: Duration
    /// `nil` if Kakao responded with success.
    package let error: KakaoError?
}

extension HTTPField.Name {
    /// Kakao's description of the SDK and the app that call.
    package static let ka: HTTPField.Name = {
        guard let name = HTTPField.Name("KA") else { preconditionFailure("KA is the name of a header field") }
        return name
    }()
}
