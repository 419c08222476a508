internal import EventLoop
package import HTTPClient
internal import HTTPTypes

/// Kakao's REST API, called on one loop, with the Admin key or with a user's access token.
///
/// Each family of the API has a file of its own and a property of this client: ``push``, ``user``. This client does not
/// retry; only an idempotent call is sent again if its kept-alive connection is lost. The caller handles errors by
/// ``KakaoError/disposition``.
package struct KakaoClient: Sendable {
    let settings: KakaoAPISettings
    private let client: HTTPClient
    private let baseURL: String
    private let headerFields: HTTPFields
    private let onCall: @Sendable (KakaoCall) -> Void

    /// - Parameters:
    ///   - client: The HTTP client of the loop that makes the calls. Its creator shuts it down.
    ///   - onCall: Called for every finished call, before its caller resumes.
    package init(
        settings: KakaoAPISettings,
        client: HTTPClient,
        onCall: @escaping @Sendable (KakaoCall) -> Void = { _ in }
    ) {
        self.settings = settings
        self.client = client
        self.onCall = onCall
        baseURL = settings.apiURL.hasSuffix("/") ? String(settings.apiURL.dropLast()) : settings.apiURL
        headerFields = [
            .authorization: "KakaoAK \(settings.adminKey.unmasked)",
            .contentType: FormBody.contentType,
        ]
    }

    /// Posts a form and returns the decoded body of a successful (2xx) response.
    ///
    /// - Parameters:
    ///   - isIdempotent: Whether calling twice has the effect of calling once.
    ///   - latestStart: See ``HTTPClientRequest/latestStart``.
    ///   - decode: Returns `nil` for a body that does not match Kakao's documentation.
    /// - Throws: ``KakaoError``
    func post<Answer>(
        _ api: KakaoCall.API,
        _ path: String,
        _ form: FormBody,
        isIdempotent: Bool = false,
        latestStart: UInt64? = nil,
        decode: ([UInt8]) -> Answer?
    ) async throws(KakaoError) -> Answer {
        var request = request(path, form, isIdempotent: isIdempotent)
        request.latestStart = latestStart
        return try await call(api, request, decode: decode)
    }

    /// Sends a GET request in a user's name and returns the decoded body of a successful (2xx) response.
    ///
    /// - Parameters:
    ///   - authorization: The value of `Authorization`, in place of the Admin key.
    ///   - timeout: The time limit for the whole call.
    ///   - decode: Returns `nil` for a body that does not match Kakao's documentation.
    /// - Throws: ``KakaoError``
    func get<Answer>(
        _ api: KakaoCall.API,
        _ path: String,
        authorization: String,
        timeout: Duration,
        decode: ([UInt8]) -> Answer?
    ) async throws(KakaoError) -> Answer {
        let request = HTTPClientRequest(
            url: baseURL + path,
            headerFields: [.authorization: authorization],
            totalTimeout: timeout
        )
        return try await call(api, request, decode: decode)
    }

    private func call<Answer>(
        _ api: KakaoCall.API,
        _ request: HTTPClientRequest,
        decode: ([UInt8]) -> Answer?
    ) async throws(KakaoError) -> Answer {
        let start = MonotonicTime.now
        do throws(KakaoError) {
            guard let answer = decode(try await answer(to: request)) else { throw .badAnswer }
            onCall(KakaoCall(api: api, duration: MonotonicTime.now - start, error: nil))
            return answer
        } catch {
            onCall(KakaoCall(api: api, duration: MonotonicTime.now - start, error: error))
            throw error
        }
    }

    private func answer(to request: HTTPClientRequest) async throws(KakaoError) -> [UInt8] {
        let response: HTTPClientResponse
        do throws(HTTPClientError) {
            response = try await client.send(request)
        } catch {
            throw KakaoError(error)
        }
        guard (200..<300).contains(response.status) else { throw KakaoError(response) }
        return response.body
    }

    /// Returns the request that ``post(_:_:_:isIdempotent:decode:)`` sends.
    func request(_ path: String, _ form: FormBody, isIdempotent: Bool = false) -> HTTPClientRequest {
        HTTPClientRequest(
            method: .post,
            url: baseURL + path,
            headerFields: headerFields,
            body: form.bytes,
            isIdempotent: isIdempotent
        )
    }
}
