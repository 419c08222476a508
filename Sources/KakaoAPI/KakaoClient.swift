package import HTTPClient
internal import HTTPTypes

/// Kakao's REST API, called with the Admin key on one loop.
///
/// Each family of the API is a file of its own, and a property of this client: ``push``. Nothing is sent again here:
/// what to do about an error is its caller's decision, for which ``KakaoError/disposition`` is made.
package struct KakaoClient: Sendable {
    let settings: KakaoAPISettings
    private let client: HTTPClient
    private let baseURL: String
    private let headerFields: HTTPFields

    /// - Parameter client: Of the loop that the calls are made on; shut down by whoever made it.
    package init(settings: KakaoAPISettings, client: HTTPClient) {
        self.settings = settings
        self.client = client
        baseURL = settings.apiURL.hasSuffix("/") ? String(settings.apiURL.dropLast()) : settings.apiURL
        headerFields = [
            .authorization: "KakaoAK \(settings.adminKey.unmasked)",
            .contentType: FormBody.contentType,
        ]
    }

    /// Posts a form, and returns the body of an answer of success (2xx).
    ///
    /// - Throws: ``KakaoError``
    func post(_ path: String, _ form: FormBody) async throws(KakaoError) -> [UInt8] {
        let response: HTTPClientResponse
        do throws(HTTPClientError) {
            response = try await client.send(request(path, form))
        } catch {
            throw KakaoError(error)
        }
        guard (200..<300).contains(response.status) else { throw KakaoError(response) }
        return response.body
    }

    /// The request that ``post(_:_:)`` sends.
    func request(_ path: String, _ form: FormBody) -> HTTPClientRequest {
        HTTPClientRequest(method: .post, url: baseURL + path, headerFields: headerFields, body: form.bytes)
    }
}
