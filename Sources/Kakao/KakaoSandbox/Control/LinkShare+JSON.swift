import HTTPServer
package import JSON

extension LinkShare {
    private static let names: Set<String> = [
        "method", "chat_type", "hash_chat_id", "template_id", "args", "resource_id", "callback_url", "url",
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
        resourceID = try input.string("resource_id")
        callbackURL = try input.string("callback_url")
        if let resourceID, !Self.isHeaderValue(resourceID) {
            let allowed = "1 to 128 visible ASCII characters"
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
        (1...128).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }
}

extension LinkShareOutcome: JSONWritable {
    package func write(to writer: inout JSONWriter) {
        writer.object {
            $0.member("sent", isSent)
            $0.member("status", status)
            $0.member("resource_id", resourceID)
            $0.member("reason", reason)
        }
    }
}
