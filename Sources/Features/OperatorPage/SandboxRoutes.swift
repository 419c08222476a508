import Endpoints
import HTTPClient
import HTTPServer
import HTTPTypes
import Net
import Schemas

/// `/sandbox/…` of a development server: the controls of its sandbox, for the page. A browser cannot call them itself, since it does not
/// trust the sandbox's certificate. They are no operations of the service, and not in its OpenAPI document.
struct SandboxRoutes: RouteCollection {
    static let title = "Sandbox"
    static let operations = [HTTPRequest.Method.get, .post, .delete].flatMap { method in
        ["/sandbox/{control}", "/sandbox/{control}/{id}", "/sandbox/{control}/{id}/{part}"].map {
            forwarding(method, $0)
        }
    }

    /// The base URL of the sandbox.
    let url: String
    let client: HTTPClient

    private static func forwarding(_ method: HTTPRequest.Method, _ path: String) -> Operation<SandboxRoutes> {
        let names = path.matches(of: /{([a-z]+)}/).map { String($0.output.1) }
        return Operation(
            "\(method.rawValue.lowercased())Sandbox\(names.count)",
            method,
            path,
            .operator(.admin),
            "Calls a control of the sandbox.",
            path: names.map { Field.path($0, .text, "A segment of the path.") },
            body: method == .get
                ? .none : .media(["application/json"], "The fields of the control.", schema: .any, isChecked: false),
            unknownFields: .kept,
            answers: [.media(.ok, ["application/json"], "What the sandbox answers.", schema: .any)],
            handler: { routes in { try await routes.forward($0.request) } }
        )
    }

    private func forward(_ request: Request) async throws -> Response {
        let query = request.head.query.isEmpty ? "" : "?\(String(decoding: request.head.query, as: UTF8.self))"
        let answer = try await client.send(
            HTTPClientRequest(
                method: request.method,
                url: "\(url)\(request.head.path)\(query)",
                headerFields: [.contentType: request[.contentType] ?? "application/json"],
                body: request.body
            )
        )
        var response = Response(HTTPResponse.Status(code: answer.status), body: answer.body)
        response.headerFields[.contentType] = answer.headerFields[.contentType]
        return response
    }
}
