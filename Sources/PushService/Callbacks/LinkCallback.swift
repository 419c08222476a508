internal import FoundationEssentials
internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// What Kakao says of one Kakao Link message that reached a chat room.
struct LinkCallback: Sendable {
    /// Ours; sorts by the time of receipt.
    let id: UUID
    /// Kakao's name for the callback, if it gave one: the same one never counts twice.
    let resourceID: String?
    /// `MemoChat`, `DirectChat`, `MultiChat`, `OpenDirectChat` or `OpenMultiChat`; others may come.
    let chatType: String
    /// Stands for the chat room; not the same for two services.
    let hashChatID: String
    /// Of a custom template; `nil` for a default one.
    let templateID: Int64?
    /// The custom arguments, as a JSON object of strings. A phone wrote them: data, never trusted.
    let args: [UInt8]
    let receivedAt: Date
}

extension HTTPField.Name {
    /// Kakao's name for a callback.
    static let kakaoResourceID = unvalidated("X-Kakao-Resource-ID")
}

extension LinkCallback {
    /// Reads a callback in any of the forms in which Kakao may send it: query, form or JSON.
    ///
    /// Kakao puts the custom arguments beside its own three, so that whatever is not one of those is an argument
    /// (Kakao, "KakaoTalk Sharing: callback").
    ///
    /// - Throws: ``Problem`` when one of Kakao's own is missing.
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
    /// Kakao's name for this callback, if it gave one.
    ///
    /// - Throws: ``Problem`` for what cannot be one.
    func kakaoResourceID() throws -> String? {
        guard let resourceID = self[.kakaoResourceID] else { return nil }
        guard (1...255).contains(resourceID.utf8.count), resourceID.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw Problem.field("X-Kakao-Resource-ID", "1 to 255 visible ASCII characters")
        }
        return resourceID
    }
}

extension String {
    /// PostgreSQL stores no NUL. Kakao calls only once, so that a callback is not refused for what a phone put into it.
    var withoutNUL: String {
        utf8.contains(0) ? String(unicodeScalars.map { $0 == "\0" ? "\u{FFFD}" : Character($0) }) : self
    }
}
