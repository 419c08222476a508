internal import FoundationEssentials
internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// A callback of Kakao for one Kakao Link message that reached a chat room.
struct LinkCallback: Sendable {
    /// The server's own id, which sorts by the time of receipt.
    let id: UUID
    /// Kakao's id for the callback, if it sent one. A duplicate of a stored callback has no effect.
    let resourceID: String?
    /// `MemoChat`, `DirectChat`, `MultiChat`, `OpenDirectChat` or `OpenMultiChat`. New values are possible.
    let chatType: String
    /// An identifier of the chat room, which is different for each service.
    let hashChatID: String
    /// The id of a custom template; `nil` for a default one.
    let templateID: Int64?
    /// The custom arguments, as a JSON object of strings. They come from a phone and are never trusted.
    let args: [UInt8]
    let receivedAt: Date
}

extension HTTPField.Name {
    /// Kakao's id for a callback.
    static let kakaoResourceID = unvalidated("X-Kakao-Resource-ID")
}

extension LinkCallback {
    /// Parses a callback in any of the forms in which Kakao may send it: query, form or JSON.
    ///
    /// Kakao sends the custom arguments next to its own three parameters, so every other parameter is an argument
    /// (Kakao, "KakaoTalk Sharing: callback").
    ///
    /// - Throws: ``Problem`` when one of Kakao's own parameters is missing or invalid.
    init(_ request: Request) throws {
        let parameters = try Parameters(request)
        let resourceID = try request.kakaoResourceID()
        var args = JSONObject()
        for name in parameters.names where !Self.ownNames.contains(name) {
            args[name.withoutNUL] = .string((parameters.anyText(name) ?? "").withoutNUL)
        }
        self.init(
            id: .v7(),
            resourceID: resourceID,
            chatType: try parameters.text("CHAT_TYPE", length: 1...64),
            hashChatID: try parameters.text("HASH_CHAT_ID", length: 1...512),
            templateID: try parameters.optionalInteger("TEMPLATE_ID", in: 0...Int64.max),
            args: JSONValue.object(args).bytes(),
            receivedAt: Date()
        )
    }

    private static let ownNames: Set<String> = ["CHAT_TYPE", "HASH_CHAT_ID", "TEMPLATE_ID"]
}

extension Request {
    /// Returns Kakao's id for this callback, if it sent one.
    ///
    /// - Throws: ``Problem`` for an invalid id.
    func kakaoResourceID() throws -> String? {
        guard let resourceID = self[.kakaoResourceID] else { return nil }
        guard (1...255).contains(resourceID.utf8.count), resourceID.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw Problem.field("X-Kakao-Resource-ID", "1 to 255 visible ASCII characters")
        }
        return resourceID
    }
}

extension String {
    /// The text with each NUL replaced, since PostgreSQL stores no NUL. Kakao calls only once, so a callback is not
    /// rejected because of a phone's input.
    var withoutNUL: String {
        utf8.contains(0) ? String(unicodeScalars.map { $0 == "\0" ? "\u{FFFD}" : Character($0) }) : self
    }
}
