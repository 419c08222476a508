internal import EventLoop
internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import KakaoAPI
internal import Schemas

/// Serves Kakao's calls as they are declared, with injected faults: it checks the credential, reads the parameters and
/// writes the answer.
struct KakaoCallServer {
    let settings: KakaoSandboxSettings
    let accessTokens: AccessTokens
    let faults: FaultBoard
    let delays: Delays
    private(set) var router = Router()
    private var served: Set<String> = []

    init(settings: KakaoSandboxSettings, accessTokens: AccessTokens, faults: FaultBoard, delays: Delays) {
        self.settings = settings
        self.accessTokens = accessTokens
        self.faults = faults
        self.delays = delays
    }

    /// The caller of a call, as its credential says.
    struct Caller {
        /// The user of the access token, or the one in `target_id` of a call with the Admin key.
        let userID: Int64?
        /// The access token with its grant, if there is one.
        var accessToken: String?
        var grant: AccessTokens.Grant?
    }

    /// Serves a call.
    ///
    /// - Parameters:
    ///   - users: The users that a call names, besides the caller, for faults that are limited to some users.
    ///   - refusal: Returns Kakao's error for invalid parameters, if it differs from the usual one.
    ///   - handle: Executes the call.
    mutating func on<Call: KakaoCall>(
        _: Call.Type,
        users: @escaping @Sendable (Call) -> [Int64] = { _ in [] },
        refusal: (@Sendable (JSONObject) -> KakaoRefusal)? = nil,
        _ handle: @escaping @Sendable (Call, Caller) throws(KakaoRefusal) -> Call.Answer
    ) {
        serve(users, refusal) { call, _, caller throws(KakaoRefusal) in try handle(call, caller) }
    }

    /// Serves a call that uploads files.
    ///
    /// - Parameter handle: Executes the call with the files, in the order of the form.
    mutating func on<Call: KakaoCall>(
        _: Call.Type,
        uploads handle: @escaping @Sendable (Call, [UploadedFile]) throws(KakaoRefusal) -> Call.Answer
    ) {
        let users: @Sendable (Call) -> [Int64] = { _ in [] }
        serve(users, nil) { call, files, _ throws(KakaoRefusal) in try handle(call, files) }
    }

    private mutating func serve<Call: KakaoCall>(
        _ users: @escaping @Sendable (Call) -> [Int64],
        _ refusal: (@Sendable (JSONObject) -> KakaoRefusal)?,
        _ handle: @escaping @Sendable (Call, [UploadedFile], Caller) throws(KakaoRefusal) -> Call.Answer
    ) {
        let operation = Call.operation
        precondition(served.insert(operation.name).inserted, "\(operation.name) is served already")
        for path in operation.paths {
            for method in operation.methods {
                let respond = { @Sendable [self] (request: Request, form: [UInt8]) async throws -> Response in
                    let call: Result<(Call, Caller, [UploadedFile]), KakaoRefusal> = Result { () throws(KakaoRefusal) in
                        var values = try Self.values(request, operation, path)
                        let files = try UploadedFile.files(in: form, of: request, addingFieldsTo: &values)
                        let caller = try caller(of: request, values, operation.credentials)
                        return (try Self.read(values, operation, refusal), caller, files)
                    }
                    let known = try? call.get()
                    return try await answer(
                        request,
                        path,
                        users: known.map { users($0.0) + ($0.1.userID.map { [$0] } ?? []) } ?? []
                    ) {
                        do throws(KakaoRefusal) {
                            let (call, caller, files) = try call.get()
                            return .json(operation.answer.encode(try handle(call, files, caller)))
                        } catch {
                            return error.response
                        }
                    }
                }
                if operation.uploadPart == nil {
                    router.on(method, path) { try await respond($0, []) }
                } else {
                    router.on(method, path, upTo: UploadedFile.maximumBodyBytes) { request, body in
                        var form: [UInt8] = []
                        for try await piece in body { form += piece }
                        return try await respond(request, form)
                    }
                }
            }
        }
    }

    /// Serves the calls for which ``on(_:users:refusal:_:)`` was not called with the answers that Kakao's documentation
    /// shows.
    mutating func serveExamples(of calls: [any KakaoCall.Type]) {
        func serve<Call: KakaoCall>(_ call: Call.Type) {
            guard !served.contains(Call.operation.name) else { return }
            on(call) { _, _ in Call.operation.answer.example }
        }
        for call in calls { serve(call) }
    }

    /// Serves a path that is no declared call, such as that of Kakao's public keys.
    mutating func on(_ path: String, _ answer: @escaping @Sendable () async throws -> Response) {
        router.on(.get, path) { [self] request in
            let response = try await answer()
            return try await self.answer(request, path, users: []) { response }
        }
    }

    /// Executes a call and returns its response, unless a fault replaces it.
    ///
    /// A latency fault delays only the response. The request is executed as soon as it has been read, so a caller that
    /// times out cannot know whether it was executed.
    private func answer(
        _ request: Request,
        _ path: String,
        users: [Int64],
        execute: () -> Response
    ) async throws -> Response {
        let verdict = faults.verdict(on: path, users: users)
        let response = verdict.end == nil || verdict.isCarriedOut ? execute() : Response(.ok)
        if let delay = verdict.delay { try await delays.wait(delay, on: request.loop) }
        switch verdict.end {
        case .refuse(let refusal): return refusal.response
        case .drop: throw ConnectionAbort()
        case nil: return response
        }
    }

    // MARK: Requests

    /// Returns the parameters of a call: those of the query, followed by those of a form body, and the choices in the
    /// path. The first of several with the same name counts, unless the parameter is a list.
    ///
    /// Kakao reads only form bodies. In a call with a JSON body, all parameters are missing.
    private static func values<Call>(
        _ request: Request,
        _ operation: KakaoOperation<Call>,
        _ path: String
    ) throws(KakaoRefusal) -> JSONObject {
        var values = JSONObject()
        func add(_ pairs: [(name: String, value: String)]) {
            for (name, value) in pairs {
                _ = values.append(
                    name,
                    .string(value),
                    isRepeatable: operation.parameters.members.contains { $0.name == name && $0.isRepeatable }
                )
            }
        }
        do {
            add(try request.queryItems())
            if request.contentType == FormURLEncoded.mediaType { add(try FormURLEncoded.parse(request.body[...])) }
        } catch {
            throw .badParameter("the form cannot be read: \(error.message)")
        }
        for (name, text) in operation.parameters(inPath: path) { values[name] = .string(text) }
        return values
    }

    private static func read<Call>(
        _ values: JSONObject,
        _ operation: KakaoOperation<Call>,
        _ refusal: ((JSONObject) -> KakaoRefusal)?
    ) throws(KakaoRefusal) -> Call {
        do {
            return try operation.parameters.read(values)
        } catch {
            if let refusal { throw refusal(values) }
            throw .badParameter(
                error.isMissing
                    ? "The Parameter [\(error.name)] cannot be null."
                    : "failed to parse parameter. name=\(error.name), it must be \(error.allowed)"
            )
        }
    }

    private func caller(
        of request: Request,
        _ values: JSONObject,
        _ credentials: [KakaoCredential.Kind]
    ) throws(KakaoRefusal) -> Caller {
        if credentials == [.none] { return Caller(userID: nil) }
        guard let authorization = request[.authorization] else { throw .unauthorized("no authentication key!") }
        if authorization.lowercased().hasPrefix("bearer "), credentials.contains(.userToken) {
            let token = String(authorization.dropFirst("bearer ".count))
            guard let grant = accessTokens.grant(of: token) else {
                throw .unauthorized("this access token does not exist")
            }
            return Caller(userID: grant.userID, accessToken: token, grant: grant)
        }
        // The scheme is case-sensitive.
        guard authorization.hasPrefix("KakaoAK ") else { throw .unauthorized("no authentication key!") }
        let key = authorization.dropFirst("KakaoAK ".count)
        if key == settings.adminKey {
            if credentials.contains(.adminKeyForUser), values["target_id_type"]?.string == "user_id" {
                guard let userID = values["target_id"].flatMap({ UserID.read($0) }) else {
                    throw .badParameter("The Parameter [target_id] cannot be null.")
                }
                return Caller(userID: userID)
            }
            if credentials.contains(.adminKey) { return Caller(userID: nil) }
        }
        if key == settings.nativeAppKey, credentials.contains(.appKey) {
            guard request[.ka] != nil else { throw .unauthorized("KA header is required") }
            return Caller(userID: nil)
        }
        throw .unauthorized("wrong appKey")
    }
}
