import EventLoop
import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import Net
import Schemas

/// Serves Kakao's calls as they are declared, with injected faults: it checks the credential, reads the parameters and
/// writes the answer.
struct KakaoCallServer {
    let settings: KakaoSandboxSettings
    let tokens: TokenStore
    let faults: FaultBoard
    let delays: Delays
    private(set) var router = Router()
    /// The names of the calls that have a handler.
    private(set) var served: Set<String> = []

    /// The caller of a call, as its credential says, and the files that it uploads.
    struct Caller {
        /// The user of the access token, or the one in `target_id` of a call with the Admin key.
        let userID: Int64?
        /// The access token with its grant, if there is one.
        var accessToken: String?
        var grant: TokenStore.Grant?
        /// The uploaded files in the order of the form.
        fileprivate(set) var files: [UploadedFile] = []
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
        on(
            Call.self,
            refusal: refusal,
            exchange: { call, caller in
                CallExchange(
                    users: users(call) + (caller.userID.map { [$0] } ?? []),
                    execute: { (try handle(call, caller), nil) }
                )
            }
        )
    }

    /// Serves a call whose requests are observed from their arrival to their response.
    ///
    /// - Parameters:
    ///   - refusal: Returns Kakao's error for invalid parameters, if it differs from the usual one.
    ///   - exchange: Called when a request has arrived.
    mutating func on<Call: KakaoCall>(
        _: Call.Type,
        refusal: (@Sendable (JSONObject) -> KakaoRefusal)?,
        exchange makeExchange: @escaping @Sendable (Call, Caller) -> CallExchange<Call.Answer>
    ) {
        let operation = Call.operation
        precondition(served.insert(operation.name).inserted, "\(operation.name) is served already")
        for path in operation.paths {
            for method in operation.methods {
                let respond = { @Sendable [self] (request: Request, form: [UInt8]) async throws -> Response in
                    let exchange: CallExchange<Call.Answer>
                    do throws(KakaoRefusal) {
                        var values = try Self.values(request, operation, path)
                        let files = try UploadedFile.files(in: form, of: request, addingFieldsTo: &values)
                        var caller = try caller(of: request, values, operation.credentials)
                        caller.files = files
                        exchange = makeExchange(try Self.read(values, operation, refusal), caller)
                    } catch {
                        exchange = CallExchange { throw error }
                    }
                    return try await answer(request, path, exchange) { .json(operation.answer.encode($0)) }
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

    /// Serves those of the calls that have no handler yet with the examples of Kakao's documentation.
    mutating func serveExamples(of calls: [any KakaoCall.Type]) {
        func serve<Call: KakaoCall>(_ call: Call.Type) {
            guard !served.contains(Call.operation.name) else { return }
            on(call) { _, _ in Call.operation.answer.example }
        }
        for call in calls { serve(call) }
    }

    /// Serves a path that is no declared call, such as that of Kakao's public keys.
    ///
    /// - Parameters:
    ///   - method: The method of its requests.
    ///   - users: The users that a request names, for faults that are limited to some users.
    mutating func on(
        _ path: String,
        method: HTTPRequest.Method = .get,
        users: @escaping @Sendable (Request) -> [Int64] = { _ in [] },
        _ respond: @escaping @Sendable (Request) async throws -> Response
    ) {
        router.on(method, path) { [self] request in
            let exchange = CallExchange(users: users(request), execute: { (try await respond(request), nil) })
            return try await answer(request, path, exchange) { $0 }
        }
    }

    /// Executes a call and returns its response, unless a fault replaces it.
    ///
    /// A latency fault delays only the response. The request is executed as soon as it has been read, so a caller that
    /// times out cannot know whether it was executed.
    private func answer<Answer>(
        _ request: Request,
        _ path: String,
        _ exchange: CallExchange<Answer>,
        encodedBy encode: (Answer) -> Response
    ) async throws -> Response {
        var event: Fault.Event?
        var isDelivered = false
        defer { exchange.onCompletion(event, isDelivered) }
        let skips = delays.skips
        var verdict = faults.verdict(on: path, users: exchange.users)
        var response = Response(.ok)
        if verdict.replacement == nil || verdict.isCarriedOut {
            do {
                let answer: Answer
                (answer, event) = try await exchange.execute()
                response = encode(answer)
            } catch let refusal as KakaoRefusal {
                response = refusal.response(to: request[.authorization])
            }
            if let event { verdict.add(faults.verdict(on: path, users: exchange.users, after: event)) }
        }
        if let delay = verdict.delay { try await delays.wait(delay, since: skips, on: request.loop) }
        if let replacement = verdict.replacement { return try replacement.response(to: request) }
        // The server cancels the task of a request whose connection is gone. Otherwise it writes the response before it
        // handles other events of the connection.
        isDelivered = !Task.isCancelled
        return response
    }

    // MARK: Requests

    /// Returns the parameters of a call: those of the query, followed by those of a form body, and the choices in the
    /// path. The first of several with the same name counts, unless the parameter is a list.
    ///
    /// Of a call that takes JSON, the members are read. Kakao ignores other bodies: of another call with a JSON body, only the query and
    /// the path are read.
    private static func values<Call>(
        _ request: Request,
        _ operation: KakaoOperation<Call>,
        _ path: String
    ) throws(KakaoRefusal) -> JSONObject {
        if operation.sendsJSON {
            guard request.contentType == "application/json",
                let object = (try? JSONValue(parsing: request.body))?.object
            else { throw .badParameter("INVALID_PARAMETER") }
            return object
        }
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
            let message = "the form cannot be read: \(error.message)"
            throw operation.host == .auth ? .oauth("invalid_request", "KOE001", message) : .badParameter(message)
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
            if error.isMissing { throw .badParameter("The Parameter [\(error.name)] cannot be null.") }
            let isArray = operation.parameters.members.contains { $0.name == error.name && $0.schema.isArray }
            if isArray, values[error.name] == "[]" {
                throw .badParameter("The Parameter [\(error.name)] cannot be empty.")
            }
            throw .badParameter("failed to parse parameter. name=\(error.name), it must be \(error.allowed)")
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
            guard let grant = tokens.grant(of: token) else {
                throw .unauthorized("this access token does not exist")
            }
            guard !grant.hasExpired else { throw .unauthorized("this access token is already expired") }
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
        if key == settings.restAPIKey, credentials.contains(.restAPIKey) { return Caller(userID: nil) }
        if [settings.nativeAppKey, settings.javaScriptKey].contains(String(key)), credentials.contains(.appKey) {
            guard request[.ka] != nil else { throw .unauthorized("KA header is required") }
            return Caller(userID: nil)
        }
        throw .unauthorized("wrong appKey")
    }
}
