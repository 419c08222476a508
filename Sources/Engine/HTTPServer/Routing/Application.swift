package import HTTPTypes
import LogOutput
package import Logging
package import Net

/// Processes every request before its handler, and every response after it.
///
/// Two plain calls, not a chain of closures, so that a request whose handler needs no `await` costs no task.
///
/// A class, so that calling it copies nothing.
package protocol Middleware: AnyObject, Sendable {
    /// Processes a request whose head was received. Its body may not have arrived.
    ///
    /// - Returns: A response to send without calling the handler, or `nil`.
    /// - Throws: ``Problem``, or ``ConnectionAbort`` to close without a response.
    func receive(_ request: Request) throws -> Response?

    /// Processes a response before it is written, whatever created it. The last middleware to receive is the first to
    /// send.
    func send(_ response: inout Response, to request: Request)

    /// Processes the refusal of bytes that are not a valid request. Called in the order of ``receive(_:)``. Does
    /// nothing by default.
    func refuse(_ refusal: Refusal)
}

extension Middleware {
    package func refuse(_ refusal: Refusal) {}
}

/// A response to bytes that are not a valid request, as ``Middleware`` sees it.
package struct Refusal: Sendable {
    /// The reason for the refusal.
    package let error: ProtocolError
    package let remoteAddress: SocketAddress
    /// The id of the refusal in every log line and in `X-Request-Id`.
    package let id: String
    package let status: HTTPResponse.Status
}

/// The request handling of one loop: routes, middleware and error responses.
package final class Application: Sendable {
    private let router: Router
    private let middleware: [any Middleware]
    /// Finds similar paths for the response to an unknown one.
    private let suggest: Router.Suggestion
    /// Returns where an unknown path is, if it is one of another server, in a sentence.
    private let elsewhere: @Sendable (_ path: String) -> String?
    /// The log lines about known errors, such as an unavailable database, and about unknown ones. Any client can cause them as
    /// often as it likes.
    private let failures: RepeatedLine
    private let unknownFailures: RepeatedLine

    /// - Parameters:
    ///   - suggest: Finds similar paths for the response to an unknown one. By default there are none.
    ///   - elsewhere: Returns where an unknown path is, if it is one of another server, in a sentence.
    package init(
        router: Router,
        middleware: [any Middleware],
        logger: Logger,
        suggest: @escaping Router.Suggestion = { _, _ in nil },
        elsewhere: @escaping @Sendable (_ path: String) -> String? = { _ in nil }
    ) {
        self.router = router
        self.middleware = middleware
        self.suggest = suggest
        self.elsewhere = elsewhere
        failures = RepeatedLine(logger, .error)
        unknownFailures = RepeatedLine(logger, .error)
    }

    /// The names of the routes: ``Router/routeNames``.
    var routeNames: [String] { router.routeNames }

    /// The next step for a request whose head was received.
    enum Decision {
        /// Respond now, without reading the body.
        case respond(Response)
        /// Run the asynchronous part of the route's check if there is one, read the body, then call the handler.
        case handle(Route, PendingCheck?)
        /// Close without a response.
        case abort
    }

    func decide(_ request: Request) -> Decision {
        do {
            for step in middleware {
                if let response = try step.receive(request) { return .respond(response) }
            }
            switch try router.match(request.method, path: request.path) {
            case .found(let route, let pathParameters):
                request.pathParameters = pathParameters
                request.route = route.number
                return .handle(route, try route.check?(request))
            case .methodNotAllowed(let allowed):
                if request.method == .options { return .respond(Response(.noContent, headerFields: [.allow: allowed])) }
                throw Problem(.methodNotAllowed, "Allowed methods: \(allowed).", headerFields: [.allow: allowed])
            case .notFound:
                if request.path == "*" { return .respond(Response(.noContent)) }
                let hint = hint(for: request.path).map { " \($0)" } ?? ""
                throw Problem(.notFound, "There is nothing at this path.\(hint)")
            }
        } catch is ConnectionAbort {
            return .abort
        } catch {
            return .respond(response(to: error, of: request))
        }
    }

    /// Returns where to go on from an unknown path.
    private func hint(for path: String) -> String? {
        if let place = elsewhere(path) { return place }
        if let similar = router.nearest(to: path, suggest) { return "Did you mean `\(similar)`?" }
        return router.alternatives(to: path).map { beginning, names in
            "Paths that begin with `\(beginning)/`: \(names.map { "`\($0)`" }.joined(separator: ", "))."
        }
    }

    /// Returns the response to a request whose handler threw.
    func response(to error: any Error, of request: Request) -> Response {
        switch error {
        case var problem as Problem:
            if problem.status == .unauthorized { problem.challenge(request[.authorization]) }
            return problem.response
        case let error as ProtocolError:
            // The body that the handler was reading is invalid.
            return Problem(error).response
        case let error as FormURLEncoded.ParseError:
            return Problem(.badRequest, error.message).response
        case let error as any ProblemConvertible:
            let problem = error.problem
            if problem.status.code >= 500 { write(failures, error, request) }
            return problem.response
        default:
            // An unknown error is "internal" for the client and complete in the log.
            write(unknownFailures, error, request)
            return Problem(
                .internalServerError,
                "Internal error. The server's log has the details under the request's id."
            )
            .response
        }
    }

    private func write(_ line: RepeatedLine, _ error: any Error, _ request: Request) {
        // Without the path, which may contain a secret. The access log has the masked path under the same id.
        line.write("Request failed", ["request_id": "\(request.id)", "error": "\(String(reflecting: error))"])
    }

    func decorate(_ response: inout Response, for request: Request) {
        for step in middleware.reversed() { step.send(&response, to: request) }
    }

    func recordRefusal(_ refusal: Refusal) {
        for step in middleware { step.refuse(refusal) }
    }
}

/// An error of a lower layer that can be shown to the caller as a problem.
package protocol ProblemConvertible: Error {
    var problem: Problem { get }
}
