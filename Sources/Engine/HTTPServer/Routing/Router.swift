package import HTTPTypes
import Net

/// The function that handles a request.
package enum Handler: Sendable {
    /// Responds at once on the loop, without a task. For handlers that need no `await`.
    case immediate(@Sendable (Request) throws -> Response)
    /// Responds in a task on the request's loop, which is cancelled if the client goes away.
    case task(@Sendable (Request) async throws -> Response)
    /// Responds in a task on the request's loop. The handler starts after the head and reads the body while it arrives.
    case streaming(maximumBodyBytes: Int, @Sendable (Request, RequestBody) async throws -> Response)
}

/// Finds a request's handler by method and path.
///
/// A pattern is a path whose segments are literals or a `{name}` that matches any one segment. A literal takes
/// precedence over a name.
package struct Router: Sendable {
    /// A node of the pattern tree, one level per segment.
    private struct Node {
        var literals: [String: Int] = [:]
        var parameter: (name: String, node: Int)?
        var routes: [(method: HTTPRequest.Method, route: Route)] = []
    }

    /// The result of routing.
    enum Match {
        case found(Route, pathParameters: [(name: String, value: String)])
        /// The path is known but not with this method: 405, with these methods in `Allow`.
        case methodNotAllowed(allowed: String)
        case notFound
    }

    /// The names of the routes. The first one stands for requests without a route.
    private(set) var routeNames = ["other"]
    private var nodes = [Node()]
    /// The maximum number of segments of a pattern.
    private var depth = 0
    /// Patterns without names, by their whole path. Most requests are found here.
    private var literalPaths: [String: Int] = [:]

    package init() {}

    /// Adds a route. A pattern has the form `/v1/pushes/{id}`. Each combination of method and pattern may be added
    /// once.
    ///
    /// - Parameters:
    ///   - name: The name of the route in the metrics; by default its method and pattern.
    ///   - check: Authorizes a request by its head; `nil` for a public route.
    ///   - bodyLimit: The maximum number of bytes of a body that is read before the handler is called, if lower than
    ///     the server's limit.
    package mutating func add(
        _ method: HTTPRequest.Method,
        _ pattern: String,
        name: String? = nil,
        check: HeadCheck? = nil,
        bodyLimit: Int? = nil,
        _ handler: Handler
    ) {
        var node = 0
        var isLiteral = true
        var segments = pattern.split(separator: "/", omittingEmptySubsequences: true)
        // A slash at the end is part of the path.
        if pattern.hasSuffix("/"), !segments.isEmpty { segments.append("") }
        depth = max(depth, segments.count)
        for segment in segments {
            if segment.hasPrefix("{"), segment.hasSuffix("}") {
                isLiteral = false
                node = child(of: node, parameter: String(segment.dropFirst().dropLast()))
            } else {
                node = child(of: node, literal: String(segment))
            }
        }
        precondition(!nodes[node].routes.contains { $0.method == method }, "duplicate route: \(method) \(pattern)")
        let route = Route(number: routeNames.count, handler: handler, check: check, bodyLimit: bodyLimit)
        nodes[node].routes.append((method, route))
        routeNames.append(name ?? "\(method) \(pattern)")
        if isLiteral { literalPaths[pattern] = node }
    }

    /// Adds a route with an asynchronous handler.
    package mutating func on(
        _ method: HTTPRequest.Method,
        _ pattern: String,
        check: HeadCheck? = nil,
        bodyLimit: Int? = nil,
        _ handler: @escaping @Sendable (Request) async throws -> Response
    ) {
        add(method, pattern, check: check, bodyLimit: bodyLimit, .task(handler))
    }

    /// Adds a route whose handler streams the body.
    ///
    /// - Parameter limit: The maximum number of bytes in the body. The minimum rate of a body is enforced whatever its
    ///   length.
    package mutating func on(
        _ method: HTTPRequest.Method,
        _ pattern: String,
        check: HeadCheck? = nil,
        upTo limit: Int = .max,
        streaming handler: @escaping @Sendable (Request, RequestBody) async throws -> Response
    ) {
        add(method, pattern, check: check, .streaming(maximumBodyBytes: limit, handler))
    }

    private mutating func child(of node: Int, literal: String) -> Int {
        if let child = nodes[node].literals[literal] { return child }
        nodes.append(Node())
        nodes[node].literals[literal] = nodes.count - 1
        return nodes.count - 1
    }

    private mutating func child(of node: Int, parameter: String) -> Int {
        if let (name, child) = nodes[node].parameter {
            precondition(name == parameter, "two patterns name the same segment differently: \(name), \(parameter)")
            return child
        }
        nodes.append(Node())
        nodes[node].parameter = (parameter, nodes.count - 1)
        return nodes.count - 1
    }

    /// Finds the route of a request. HEAD is handled by the handler of GET.
    ///
    /// - Throws: ``FormURLEncoded/ParseError`` if a segment that matches a `{name}` cannot be decoded.
    func match(_ method: HTTPRequest.Method, path: String) throws(FormURLEncoded.ParseError) -> Match {
        let wanted: HTTPRequest.Method = method == .head ? .get : method
        if let node = literalPaths[path], let route = route(at: node, wanted) {
            return .found(route, pathParameters: [])
        }
        guard path.hasPrefix("/") else { return .notFound }
        // One more than any pattern has matches none, however many are left in it.
        let rest = path.dropFirst()
        let segments =
            rest.isEmpty ? [] : rest.split(separator: "/", maxSplits: depth, omittingEmptySubsequences: false)
        var search = Search(method: wanted)
        if let route = try find(segments[...], below: 0, &search) {
            return .found(route, pathParameters: search.parameters)
        }
        guard !search.allowed.isEmpty else { return .notFound }
        if search.allowed.contains("GET") { search.allowed.append("HEAD") }
        return .methodNotAllowed(allowed: search.allowed.joined(separator: ", "))
    }

    /// A function that finds the name that a misspelt one was probably meant to be.
    package typealias Suggestion = @Sendable (_ name: String, _ known: [String]) -> String?

    /// The length of a path for which a similar one is searched, in bytes.
    private static let maximumSuggested = 200
    private static let maximumSimilar = 3

    /// Returns the pattern that a path without a route was probably meant to match; `nil` if none is similar.
    ///
    /// It differs in the first segment only, the version; or has the same number of segments, or begins with the `/v1` that the path lacks.
    /// At each segment the search follows at most three literals that are similar, and a name, so that strangers cannot make it long.
    func nearest(to path: String, _ suggest: Suggestion) -> String? {
        guard let segments = segments(ofUnknown: path) else { return nil }
        let rest = segments.dropFirst().map { "/\($0)" }.joined()
        if !rest.isEmpty {
            let versions = nodes[0].literals.keys.sorted().map { "/\($0)\(rest)" }
            if let other = versions.first(where: { literalPaths[$0] != nil }) { return other }
        }
        return nearest(segments[...], below: 0, suggest) ?? nearest((["v1"] + segments)[...], below: 0, suggest)
    }

    private func segments(ofUnknown path: String) -> [Substring]? {
        guard path.hasPrefix("/"), path.utf8.count <= Self.maximumSuggested else { return nil }
        let segments = path.split(separator: "/", maxSplits: depth)
        return segments.isEmpty || segments.count > depth ? nil : segments
    }

    /// - Parameter needsDigit: Whether a name stands for a segment with a digit only, as ids have: a literal was replaced that exists, so
    ///   that a word is more likely a misspelt literal than a name.
    private func nearest(
        _ segments: ArraySlice<Substring>,
        below node: Int,
        needsDigit: Bool = false,
        _ suggest: Suggestion
    ) -> String? {
        guard let segment = segments.first.map(String.init) else { return nodes[node].routes.isEmpty ? nil : "" }
        let literals = nodes[node].literals
        var others = literals.keys.sorted()
        for _ in 0..<Self.maximumSimilar {
            guard let literal = others.contains(segment) ? segment : suggest(segment, others),
                let child = literals[literal]
            else { break }
            let replacesKnown = literal != segment && literals[segment] != nil
            let rest = nearest(segments.dropFirst(), below: child, needsDigit: needsDigit || replacesKnown, suggest)
            if let rest { return "/\(literal)\(rest)" }
            others.removeAll { $0 == literal }
        }
        guard !needsDigit || segment.utf8.contains(where: { (0x30...0x39).contains($0) }),
            let (name, child) = nodes[node].parameter,
            let rest = nearest(segments.dropFirst(), below: child, needsDigit: needsDigit, suggest)
        else { return nil }
        return "/{\(name)}\(rest)"
    }

    private static let maximumListed = 8

    /// Returns the beginning of an unknown path, if it is known, and the segments that may follow it; `nil` if there are none or many.
    func alternatives(to path: String) -> (beginning: String, names: [String])? {
        guard let parents = segments(ofUnknown: path)?.dropLast(), parents.count > 1 else { return nil }
        var node = 0
        for segment in parents {
            guard let child = nodes[node].literals[String(segment)] else { return nil }
            node = child
        }
        let names = nodes[node].literals.filter { !nodes[$0.value].routes.isEmpty }.keys.sorted()
        return (1...Self.maximumListed).contains(names.count) ? (parents.map { "/\($0)" }.joined(), names) : nil
    }

    /// The state of one search.
    private struct Search {
        let method: HTTPRequest.Method
        var parameters: [(name: String, value: String)] = []
        /// The methods of matching patterns that do not have the requested method.
        var allowed: [String] = []
    }

    private func route(at node: Int, _ method: HTTPRequest.Method) -> Route? {
        nodes[node].routes.first { $0.method == method }?.route
    }

    /// Returns the route for `segments`. A literal is tried first; if it leads to no route, a name is tried.
    private func find(
        _ segments: ArraySlice<Substring>,
        below node: Int,
        _ search: inout Search
    ) throws(FormURLEncoded.ParseError) -> Route? {
        guard let segment = segments.first else {
            if let route = route(at: node, search.method) { return route }
            for (method, _) in nodes[node].routes where !search.allowed.contains(method.rawValue) {
                search.allowed.append(method.rawValue)
            }
            return nil
        }
        if let child = nodes[node].literals[String(segment)],
            let route = try find(segments.dropFirst(), below: child, &search)
        {
            return route
        }
        guard let (name, child) = nodes[node].parameter, !segment.isEmpty else { return nil }
        let value = try FormURLEncoded.percentDecoded(Array(segment.utf8)[...], plusIsSpace: false)
        search.parameters.append((name, value))
        if let route = try find(segments.dropFirst(), below: child, &search) { return route }
        search.parameters.removeLast()
        return nil
    }
}
