package import HTTPTypes
package import Logging

/// Sees every request before its handler and every response after it.
///
/// Two plain calls and not a chain of closures, so that a request whose handler needs no `await` costs no task.
///
/// A class, so that calling it copies nothing.
package protocol Middleware: AnyObject, Sendable {
    /// A head has come; its body may not have.
    ///
    /// - Returns: The answer, if it is known already: then the handler is not called.
    /// - Throws: ``Problem``, or ``ConnectionAbort`` to close without an answer.
    func receive(_ request: Request) throws -> Response?

    /// A response is about to be written, whoever made it. The last middleware to receive is the first to send.
    func send(_ response: inout Response, to request: Request)

    /// Bytes that were no request are about to be answered. Called in the order of ``receive(_:)``; does nothing by default.
    func refuse(_ refusal: Refusal)
}

extension Middleware {
    package func refuse(_ refusal: Refusal) {}
}

/// The answer to bytes that were no request, as ``Middleware`` sees it.
package struct Refusal: Sendable {
    /// What was wrong with the bytes.
    package let error: ProtocolError
    package let remoteAddress: SocketAddress
    /// Names the refusal in every log line and in `X-Request-Id`.
    package let id: String
    package let status: HTTPResponse.Status
}

/// What one loop of a server answers with: routes, middleware, and how errors are told.
package final class Application: Sendable {
    private let router: Router
    private let middleware: [any Middleware]
    private let logger: Logger

    package init(router: Router, middleware: [any Middleware], logger: Logger) {
        self.router = router
        self.middleware = middleware
        self.logger = logger
    }

    /// What becomes of a request whose head has come.
    enum Decision {
        /// Answer now, whatever the body.
        case respond(Response)
        /// Await the rest of the route's check if there is one, read the body, then call the handler.
        case handle(Route, PendingCheck?)
        /// Close without an answer.
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
                return .handle(route, try route.check?(request))
            case .methodNotAllowed(let allowed):
                if request.method == .options { return .respond(Response(.noContent, headerFields: [.allow: allowed])) }
                throw Problem(.methodNotAllowed, "Allowed here: \(allowed).", headerFields: [.allow: allowed])
            case .notFound:
                if request.path == "*" { return .respond(Response(.noContent)) }
                throw Problem(.notFound, "There is nothing at this path.")
            }
        } catch is ConnectionAbort {
            return .abort
        } catch {
            return .respond(response(to: error, of: request))
        }
    }

    /// The answer to a request whose handler threw.
    func response(to error: any Error, of request: Request) -> Response {
        switch error {
        case let problem as Problem:
            return problem.response
        case let error as ProtocolError:
            // The body that the handler read was none.
            return Problem(error).response
        case let error as FormURLEncoded.ParseError:
            return Problem(.badRequest, error.message).response
        case let error as any ProblemConvertible:
            let problem = error.problem
            if problem.status.code >= 500 { log(error, request) }
            return problem.response
        default:
            // What is unknown is "internal" outside and complete in the log.
            log(error, request)
            return Problem(
                .internalServerError,
                "Something went wrong here. The log has the rest under the request's id."
            )
            .response
        }
    }

    private func log(_ error: any Error, _ request: Request) {
        // Without the path, which may hold a secret: the access log has it, masked, under the same id.
        logger.error(
            "A request failed",
            metadata: ["request_id": "\(request.id)", "error": "\(String(reflecting: error))"]
        )
    }

    func finish(_ response: inout Response, to request: Request) {
        for step in middleware.reversed() { step.send(&response, to: request) }
    }

    func note(_ refusal: Refusal) {
        for step in middleware { step.refuse(refusal) }
    }
}

/// An error of a lower layer that knows what to tell the caller.
package protocol ProblemConvertible: Error {
    var problem: Problem { get }
}
