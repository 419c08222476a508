import Endpoints
import FoundationEssentials
import JSON
import Postgres
import Schemas
import ServiceKit
import Sharing

/// A callback of Kakao for one Kakao Link message that reached a chat room.
struct LinkCallback: Sendable {
    /// The server's own id, which sorts by the time of receipt.
    let id: UUID
    /// Kakao's id for the callback, if it sent one, or a hash in its place: ``KakaoCallReader/resourceID``. A duplicate of a
    /// stored callback has no effect.
    let resourceID: String?
    /// `MemoChat`, `DirectChat`, `MultiChat`, `OpenDirectChat` or `OpenMultiChat`. New values are possible.
    let chatType: String?
    /// An identifier of the chat room, which is different for each service.
    let hashChatID: String?
    /// The id of a custom template; `nil` for a default one.
    let templateID: Int64?
    /// The custom arguments, as a JSON object of strings, without a signature that was checked. They come from a phone:
    /// only those with a valid signature are known to be as this service sent them.
    let args: [UInt8]
    /// The outcome of the check of the arguments' signature; `nil` if there is none.
    let signature: ShareSigner.Verdict?
    /// The call as Kakao sent it; `nil` if all of it was understood. Of any other, ``chatType`` and ``hashChatID`` may be `nil`, and the
    /// signature is never valid.
    let raw: String?
    let receivedAt: Date

    /// The key of its row.
    var key: String { resourceID ?? id.lowercased }
}

extension LinkCallback {
    /// Kakao's own parameters.
    static let fields: [any FieldDeclaration] = [chatTypeField, hashChatIDField, templateIDField]

    private static let chatTypeField = Field.required("CHAT_TYPE", .text(1...64), "The kind of chat room.")
    private static let hashChatIDField = Field.required("HASH_CHAT_ID", .text(1...512), "The chat room.")
    private static let templateIDField = Field.optional("TEMPLATE_ID", .templateID, "The custom template.")

    /// Reads a callback in any of the forms in which Kakao may send it: query, form or JSON.
    ///
    /// Kakao sends the custom arguments next to its own three parameters, so every other parameter is an argument
    /// (Kakao, "KakaoTalk Sharing: callback").
    ///
    /// - Parameter signer: Checks a signature among the arguments; without it, a signature is an argument like others.
    init(_ call: Call, _ signer: ShareSigner?) {
        let receivedAt = Date()
        var reader = KakaoCallReader(call)
        let chatType = reader.value(Self.chatTypeField)
        let hashChatID = reader.value(Self.hashChatIDField)
        let templateID = reader.value(Self.templateIDField) ?? nil
        var args = Array(call.undeclaredTexts)
        var verdict: ShareSigner.Verdict?
        if let signer, let index = args.firstIndex(where: { $0.name == ShareSigner.argument }) {
            let signature = args.remove(at: index).value
            verdict = reader.isMalformed ? .invalid : signer.verify(signature, args, at: receivedAt)
            if verdict?.shareID != nil { args.removeAll { !ShareSigner.isTrusted($0.name) } }
        } else if signer != nil, call.isRepeated(ShareSigner.argument) {
            verdict = .invalid
        }
        self.init(
            id: .v7(),
            resourceID: reader.resourceID,
            chatType: chatType,
            hashChatID: hashChatID,
            templateID: templateID,
            args: Self.json(args),
            signature: verdict,
            raw: reader.raw,
            receivedAt: receivedAt
        )
    }
}

extension Kind where Value == Int64? {
    /// The id of a custom template, which may be empty: Kakao does not repeat a call that is rejected.
    fileprivate static var templateID: Kind {
        let id = Kind<Int64>.integer(0...Int64.max)
        return .input(.oneOf([id.input, .constant("")]), allowed: "\(id.allowed), or empty") {
            value throws(InvalidValue) in
            value == .string("") ? nil : try id.read(value)
        }
    }
}

extension Call {
    /// The fields that Kakao's documentation does not name, as a JSON object of texts.
    var undeclaredText: [UInt8] {
        LinkCallback.json(undeclaredTexts)
    }

    /// The fields that Kakao's documentation does not name.
    fileprivate var undeclaredTexts: some Collection<(name: String, value: String)> {
        undeclared.map { (name: $0.name, value: $0.value.anyText) }
    }
}

extension LinkCallback {
    /// Returns a JSON object of texts with different names, which PostgreSQL can store.
    fileprivate static func json(_ texts: some Collection<(name: String, value: String)>) -> [UInt8] {
        var isStorable = true
        var json = JSONWriter()
        json.object { json in
            for (name, value) in texts {
                if name.utf8.contains(0) { isStorable = false }
                json.member(name, value.withoutNUL)
            }
        }
        guard !isStorable else { return json.bytes }
        // Names may be equal without their NUL.
        var object = JSONObject()
        for (name, value) in texts { object[name.withoutNUL] = .string(value.withoutNUL) }
        return JSONValue.object(object).bytes()
    }
}

extension String {
    /// The text with each NUL replaced, since PostgreSQL stores no NUL. Kakao calls only once, so a callback is not
    /// rejected because of a phone's input.
    var withoutNUL: String {
        utf8.contains(0) ? String(unicodeScalars.map { $0 == "\0" ? "\u{FFFD}" : Character($0) }) : self
    }
}

extension LinkCallback {
    /// The members of a callback in a response.
    static let shape = Shape<StoredCall<LinkCallback>>(
        "LinkCallback",
        [
            .member("id", .uuid, "The id of the callback, which sorts by the time of receipt.", \.call.id),
            .nullable("resource_id", .text, "Kakao's id of the callback, or a hash in its place.", \.call.resourceID),
            .nullable("chat_type", .text, "The kind of chat room.", \.call.chatType),
            .nullable("hash_chat_id", .text, "The chat room.", \.call.hashChatID),
            .nullable("template_id", Kind<Int64>.integer(0...Int64.max), "The custom template.", \.call.templateID),
            .member(
                "args",
                .objectText,
                "The custom arguments. They come from a phone: only with a valid signature are they as the share has them."
            ) { JSONFragment($0.call.args) },
            .nullable("share_id", .shareID, "The share, if the signature is valid.", \.call.signature?.shareID),
            .nullable(
                "signature",
                .text(oneOf: ShareSigner.Verdict.names),
                "Whether this service signed the arguments; `null` if they have no signature.",
                \.call.signature?.name
            ),
            .member("malformed", .boolean, "Whether a part of the call was not understood.") { $0.call.raw != nil },
            .nullable("raw", .text, "What Kakao sent, if the call is malformed: its first 8 KiB.", \.call.raw),
            .member("received_at", .time, "When Kakao called.", \.call.receivedAt),
            .member("stored_at", .time, "When the callback was stored.", \.storedAt),
        ]
    )
}

extension StoredCall<LinkCallback> {
    static var columns: SQL {
        """
        id, NULLIF(key, id::text), chat_type, hash_chat_id, template_id, args, signature, share_id, raw, received_at,
        stored_at
        """
    }

    /// Decodes ``columns``.
    init(_ column: inout ColumnCursor) throws {
        let callback = try LinkCallback(
            id: column.next(),
            resourceID: column.next(),
            chatType: column.next(),
            hashChatID: column.next(),
            templateID: column.next(),
            args: column.next(),
            signature: ShareSigner.Verdict(
                name: column.next(),
                shareID: column.next(UUID?.self).map { ShareID($0) }
            ),
            raw: column.next(),
            receivedAt: column.next()
        )
        self.init(call: callback, storedAt: try column.next())
    }
}
