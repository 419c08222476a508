package import JSON

/// A Kakao Link message that somebody shared to a chat room.
package struct LinkShare: Sendable {
    /// How the app has chosen to be called, in the console.
    package enum Method: String, Sendable, CaseIterable {
        case get = "GET"
        /// The documents leave open which body a POST has: the sandbox can send either.
        case postJSON = "POST-json"
        case postForm = "POST-form"
    }

    /// The kinds of room that are documented for `CHAT_TYPE`.
    package static let chatTypes = ["MemoChat", "DirectChat", "MultiChat", "OpenDirectChat", "OpenMultiChat"]
    /// The names that Kakao's own parameters have: a custom argument cannot.
    package static let reservedNames = ["CHAT_TYPE", "HASH_CHAT_ID", "TEMPLATE_ID"]

    package var method = Method.get
    /// One of ``chatTypes``.
    package var chatType = "MemoChat"
    /// The service's own hash of the room; `nil` for one made up.
    package var hashChatID: String?
    /// Of a message made from a template; `nil` otherwise.
    package var templateID: Int64?
    /// The custom arguments of the phone that shared it. Without any, Kakao calls nobody.
    package var arguments = JSONObject()
    /// `X-Kakao-Resource-ID`; `nil` for one made up.
    package var resourceID: String?
    /// The push server's base URL; `nil` for the one of the settings.
    package var callbackURL: String?

    package init() {}

    /// The parameters in the order in which they are sent.
    func parameters(hashChatID: String) -> JSONObject {
        var parameters: JSONObject = ["CHAT_TYPE": .string(chatType), "HASH_CHAT_ID": .string(hashChatID)]
        if let templateID { parameters["TEMPLATE_ID"] = .integer(templateID) }
        for (name, value) in arguments.members where parameters[name] == nil { parameters[name] = value }
        return parameters
    }
}

/// What became of the callback of a shared message.
package struct LinkShareOutcome: Sendable, Equatable {
    /// Whether Kakao called. It calls once and never again.
    package var isSent: Bool
    /// What the push server answered; `nil` if it did not, within 3 seconds.
    package var status: Int?
    /// `X-Kakao-Resource-ID`, when called.
    package var resourceID: String?
    /// Why it was not called, or why there is no status.
    package var reason: String?
}
