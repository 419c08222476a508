package import Endpoints
import Runtime

extension OpenAPIDocument {
    /// The document of all operations of the service, whatever a server's settings are.
    package static let service = OpenAPIDocument(
        title: "kakao-push-server",
        version: ServerVersion.current,
        description: """
            A backend between a company's apps and Kakao. Errors are problems (RFC 9457) with Kakao's `code` and `msg`. \
            Times are RFC 3339 in UTC. User ids are integers or their decimal texts in requests, and texts in responses. \
            Each response has an `X-Request-Id`. Requests that are malformed, too slow or too large on the level of HTTP \
            are answered with 400, 408, 413, 414, 417, 431, 501 or 505.
            """,
        routeCollections
    )
}
