package import JSON

/// A Kakao Link message that a user shared to a chat room.
package struct LinkShare: Sendable {
    /// The method of the callback, which the app's developer chooses in Kakao's console.
    package enum Method: String, Sendable, CaseIterable {
        case get = "GET"
        /// A POST with JSON. Kakao's documentation does not specify the body of a POST, so the sandbox can send either.
        case postJSON = "POST-json"
        case postForm = "POST-form"
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

/// The result of the callback of a shared message.
package struct LinkShareOutcome: Sendable, Equatable {
    /// Whether the push server was called. Kakao does not retry.
    package var isSent: Bool
    /// The HTTP status of the push server's last response; `nil` if there was none in time.
    package var status: Int?
    /// `X-Kakao-Resource-ID`; `nil` if the push server was not called.
    package var resourceID: String?
    /// The reason why the push server was not called, or why there is no status.
    package var reason: String?
}
