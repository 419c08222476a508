import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import Schemas

/// The control `/sandbox/faults`, which adds and removes faults (`docs/sandbox.md`).
struct FaultControl: Sendable {
    let faults: FaultBoard

    func addRoutes(to router: inout Router) {
        router.control(.get, "/sandbox/faults") { _ in .json { $0.member("items", faults.faults) } }
        router.control(.post, "/sandbox/faults", add)
        router.command(.delete, "/sandbox/faults") { _ in faults.removeAll() }
        router.command(.delete, "/sandbox/faults/{id}", remove)
    }

    private func add(_ request: Request) throws -> Response {
        guard let id = faults.add(try Fault(bodyOf: request)) else {
            throw Problem(
                .conflict,
                "\(FaultBoard.maximumFaults) faults are active already. Remove some with DELETE /sandbox/faults."
            )
        }
        return .json(status: .created) { $0.member("id", id) }
    }

    private func remove(_ request: Request) throws {
        guard let id = UserID.read(.string(request.pathParameter("id"))), faults.remove(Int(id)) else {
            throw Problem(.notFound, "There is no fault with this id.")
        }
    }
}

extension Fault {
    private static let names: Set<String> = [
        "path", "kind", "status", "code", "error", "error_code", "msg", "retry_after", "milliseconds", "probability",
        "times", "user_ids", "delivered", "when", "share", "body_bytes", "content_type", "body", "server", "via",
    ]
    private static let maximumUsers = 10_000
    private static let maximumBodyBytes: Int64 = 16 * 1024 * 1024

    /// Reads the body of `POST /sandbox/faults`.
    ///
    /// - Throws: ``Problem`` that names the field.
    init(bodyOf request: Request) throws(Problem) {
        let input = try ControlInput(bodyOf: request, known: Self.names)
        guard let kind: Kind = try input.choice("kind") else {
            let allowed = Kind.allCases.map(\.rawValue).joined(separator: ", ")
            throw ControlInput.problem("kind", "is required", allowed: allowed)
        }
        self.init(kind)
        if let path = try input.string("path") {
            guard path == "*" || path.hasPrefix("/") else {
                throw ControlInput.problem("path", "must be * or begin with /", allowed: "*, /v1/push/send")
            }
            self.path = path
        }
        status = try input.integer("status", in: 200...599).map(Int.init)
        code = try input.integer("code", in: -99_999...99_999).map(Int.init)
        let (error, errorCode) = (try input.string("error"), try input.string("error_code"))
        if error != nil || errorCode != nil { oauthError = OAuthError(error: error ?? "", code: errorCode) }
        if let message = try input.string("msg") { self.message = message }
        retryAfterSeconds = try input.integer("retry_after", in: 0...86_400).map(Int.init)
        bodyBytes = try input.integer("body_bytes", in: 0...Self.maximumBodyBytes).map(Int.init)
        if let contentType = try input.string("content_type") { page.contentType = contentType }
        if let body = try input.string("body") { page.body = body }
        page.server = try input.string("server")
        page.via = try input.string("via")
        let longest = Int64(FaultBoard.maximumMilliseconds)
        if let milliseconds = try input.integer("milliseconds", in: 0...longest) {
            self.milliseconds = Int(milliseconds)
        } else if kind == .latency {
            throw ControlInput.problem("milliseconds", "is required for the kind latency", allowed: "0 to \(longest)")
        }
        if let probability = try Self.fraction("probability", input) { self.probability = probability }
        if let share = try Self.fraction("share", input) { self.share = share }
        if kind == .receivers, code == nil {
            throw ControlInput.problem("code", "is required for the kind receivers", allowed: "-99999 to 99999")
        }
        times = try input.integer("times", in: 1...Int64(Int32.max)).map(Int.init)
        userIDs = try Self.users(input)
        isCarriedOut = try input.bool("delivered") ?? false
        when = try input.choice("when")
        for (name, isGiven) in [("user_ids", userIDs != nil), ("when", when != nil)] where isGiven && isAtHead {
            throw ControlInput.problem(
                name,
                "cannot be combined with this kind, which strikes before the body is read",
                allowed: "another kind"
            )
        }
    }

    private static func fraction(_ name: String, _ input: ControlInput) throws(Problem) -> Double? {
        try input.member(name, "a number from 0 to 1", allowed: "0 to 1") { value in
            value.number?.double.flatMap { (0...1).contains($0) ? $0 : nil }
        }
    }

    private static func users(_ input: ControlInput) throws(Problem) -> Set<Int64>? {
        try input.member("user_ids", "an array of 1 to \(maximumUsers) user ids") { value in
            UserID.read(value, count: 1...maximumUsers).map(Set.init)
        }
    }
}

extension FaultBoard.Armed: JSONWritable {
    func write(to writer: inout JSONWriter) {
        writer.object { json in
            json.member("id", id)
            json.member("path", fault.path)
            json.member("kind", fault.kind.rawValue)
            json.member("status", fault.status)
            json.member("code", fault.code)
            json.member("error", fault.oauthError?.error)
            json.member("error_code", fault.oauthError?.code)
            json.member("msg", fault.message)
            json.member("body_bytes", fault.bodyBytes)
            if fault.kind == .anotherHost {
                json.member("content_type", fault.page.contentType)
                json.member("body", fault.page.body)
                json.member("server", fault.page.server)
                json.member("via", fault.page.via)
            }
            json.member("retry_after", fault.retryAfterSeconds)
            json.member("milliseconds", fault.milliseconds)
            json.member("probability", fault.probability)
            json.member("share", fault.share)
            json.member("times", fault.times)
            json.member("user_ids", fault.userIDs.map { $0.sorted().map(String.init) })
            json.member("delivered", fault.isCarriedOut)
            json.member("when", fault.when?.rawValue)
            json.member("applied", applied)
        }
    }
}
