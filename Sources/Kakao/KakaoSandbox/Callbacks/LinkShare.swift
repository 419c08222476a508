import HTTPServer
package import JSON

/// A Kakao Link message that a user shared to a chat room.
package struct LinkShare: Sendable {
    /// The method of the callback, which the app's developer chooses in Kakao's console.
    package enum Method: String, Sendable, CaseIterable {
        case get = "GET"
        /// A POST with JSON. Kakao's documentation does not specify the body of a POST, so the sandbox can send either.
        case postJSON = "POST-json"
        case postForm = "POST-form"
        /// A POST whose parameters are in the query.
        case postQuery = "POST-query"
    }

    /// The documented values of `CHAT_TYPE`.
    package static let chatTypes = ["MemoChat", "DirectChat", "MultiChat", "OpenDirectChat", "OpenMultiChat"]
    /// The names of Kakao's own parameters, which custom arguments must not use.
    package static let reservedNames = ["CHAT_TYPE", "HASH_CHAT_ID", "TEMPLATE_ID"]

    package var method = Method.get
    /// One of ``chatTypes``.
    package var chatType = "MemoChat"
    /// The hash of the chat room, which is specific to the service; `nil` for a random one.
    package var hashChatID: String?
    /// The id of the message's template; `nil` for a message without one.
    package var templateID: Int64?
    /// The custom arguments that the phone passed when it shared the message. Without any, Kakao sends no callback.
    package var arguments = JSONObject()
    /// The query, form or JSON that is sent in place of the parameters, whatever it is: a changed app on a phone can cause
    /// callbacks that no server understands. `nil` for a well-formed callback.
    package var raw: String?
    /// `X-Kakao-Resource-ID`; `nil` for a random one.
    package var resourceID: String?
    /// The push server's base URL; `nil` for the one in the settings.
    package var callbackURL: String?
    /// The number of times that the callback is sent, each with the same ids.
    package var times = 1
    /// The time between the share and the first callback.
    package var delay = Duration.zero
    /// The time limit for the push server's response. Kakao waits for 3 seconds.
    package var timeout = Duration.seconds(3)

    package init() {}

    /// Returns the callback's parameters in the order in which they are sent.
    func parameters(hashChatID: String) -> JSONObject {
        var parameters: JSONObject = ["CHAT_TYPE": .string(chatType), "HASH_CHAT_ID": .string(hashChatID)]
        if let templateID { parameters["TEMPLATE_ID"] = .integer(templateID) }
        for (name, value) in arguments.members where parameters[name] == nil { parameters[name] = value }
        return parameters
    }
}

extension LinkShare {
    private static let names: Set<String> = [
        "method", "chat_type", "hash_chat_id", "template_id", "args", "raw", "resource_id", "callback_url", "url",
        "times", "delay_ms",
    ]
    private static let maximumTimes: Int64 = 10
    private static let maximumDelay: Int64 = 60_000

    /// Reads the body of `POST /sandbox/link/share`.
    ///
    /// `url` is an address that opens the picker of friends. Its custom arguments come first; `args` replace those of the
    /// same names, as a phone could.
    ///
    /// - Throws: ``Problem`` that names the field.
    init(bodyOf request: Request, _ settings: KakaoSandboxSettings) throws(Problem) {
        let input = try ControlInput(bodyOf: request, known: Self.names)
        if let url = try input.string("url") { try self.init(address: url, settings) } else { self.init() }
        if let method: Method = try input.choice("method") { self.method = method }
        if let chatType = try input.string("chat_type") {
            guard Self.chatTypes.contains(chatType) else {
                let allowed = Self.chatTypes.joined(separator: ", ")
                throw ControlInput.problem("chat_type", "must be one of \(allowed)", allowed: allowed)
            }
            self.chatType = chatType
        }
        hashChatID = try input.string("hash_chat_id")
        if let templateID = try input.integer("template_id", in: 1...Int64.max) { self.templateID = templateID }
        for (name, value) in try Self.arguments(input).members { arguments[name] = value }
        times = Int(try input.integer("times", in: 1...Self.maximumTimes) ?? 1)
        delay = .milliseconds(try input.integer("delay_ms", in: 0...Self.maximumDelay) ?? 0)
        raw = try input.string("raw")
        resourceID = try input.string("resource_id")
        callbackURL = try input.string("callback_url")
        if let resourceID, !Self.isHeaderValue(resourceID) {
            let allowed = "1 to 512 visible ASCII characters"
            throw ControlInput.problem("resource_id", "must consist of \(allowed)", allowed: allowed)
        }
    }

    /// Creates the share of an address that opens the picker of friends.
    ///
    /// - Throws: ``Problem`` that says what Kakao would refuse.
    init(address: String, _ settings: KakaoSandboxSettings) throws(Problem) {
        let address = try SharedAddress(address, settings)
        self.init()
        (templateID, arguments) = (address.templateID, address.arguments)
    }

    private static func arguments(_ input: ControlInput) throws(Problem) -> JSONObject {
        guard let value = input.value("args") else { return JSONObject() }
        guard case .object(let arguments) = value else {
            throw ControlInput.problem("args", "must be an object", allowed: "an object")
        }
        for name in reservedNames where arguments[name] != nil {
            throw ControlInput.problem(
                "args",
                "must not contain \(name), a parameter of Kakao's own",
                allowed: "other names"
            )
        }
        return arguments
    }

    private static func isHeaderValue(_ text: String) -> Bool {
        (1...512).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }
}
