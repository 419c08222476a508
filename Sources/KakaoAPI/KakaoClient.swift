internal import EventLoop
package import HTTPClient
internal import HTTPTypes

/// Kakao's REST API, called on one loop: with the Admin key, or in a user's name.
///
/// Each family of the API is a file of its own, and a property of this client: ``push``, ``user``. Nothing is sent again here,
/// but what is idempotent when a kept connection dies under it: what to do about an error is its caller's decision, for which
/// ``KakaoError/disposition`` is made.
package struct KakaoClient: Sendable {
    let settings: KakaoAPISettings
    private let client: HTTPClient
    private let baseURL: String
    private let headerFields: HTTPFields
    private let onCall: @Sendable (KakaoCall) -> Void

    /// - Parameters:
    ///   - client: Of the loop that the calls are made on; shut down by whoever made it.
    ///   - onCall: Told of every call when it has ended, before its caller is.
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

    /// Posts a form, and returns what `decode` makes of the body of an answer of success (2xx).
    ///
    /// - Parameters:
    ///   - isIdempotent: To call twice comes to the same as to call once.
    ///   - latestStart: See ``HTTPClientRequest/latestStart``.
    ///   - decode: Returns `nil` for a body that is not what the documents say.
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

    /// Asks in a user's name, and returns what `decode` makes of the body of an answer of success (2xx).
    ///
    /// - Parameters:
    ///   - authorization: In place of the Admin key.
    ///   - timeout: For the whole of the call.
    ///   - decode: Returns `nil` for a body that is not what the documents say.
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

    /// The request that ``post(_:_:_:isIdempotent:decode:)`` sends.
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
