import Endpoints
import HTTPServer
import HTTPTypes
import JSON
import Schemas
import ServiceKit
import Sharing

/// An export of link callbacks, as fast as the client reads it.
struct LinkCallbackExport: Sendable {
    /// The number of callbacks that are read at a time, of some hundred bytes each.
    private static let pageSize = 500
    /// The names of the columns of CSV: the members of a callback in JSON.
    private static let columns = [
        "id", "resource_id", "chat_type", "hash_chat_id", "template_id", "args", "share_id", "signature",
        "received_at", "stored_at",
    ]

    let store: LinkCallbackStore
    let format: TransferFormat

    /// Returns a response with all callbacks that pass `filter`, the latest first.
    func response(_ filter: LinkCallbackStore.Filter) async throws -> Response {
        var header: [UInt8] = []
        if format == .csv { CSVLine.write(Self.columns, to: &header) }
        return try await .export(format.contentType, header: header) { last in
            var filter = filter
            filter.before = last?.call.id ?? filter.before
            return try await store.list(filter, limit: Self.pageSize)
        } write: { callback, bytes in
            write(callback, to: &bytes)
        }
    }

    private func write(_ stored: StoredCall<LinkCallback>, to bytes: inout [UInt8]) {
        switch format {
        case .ndjson:
            bytes += LinkCallback.shape.json(stored)
            bytes.append(UInt8(ascii: "\n"))
        case .csv:
            let callback = stored.call
            let fields = [
                callback.id.lowercased, callback.resourceID ?? "", callback.chatType, callback.hashChatID,
                callback.templateID.map { String($0) } ?? "", String(decoding: callback.args, as: UTF8.self),
                callback.signature?.shareID?.text ?? "", callback.signature?.name ?? "",
                callback.receivedAt.rfc3339, stored.storedAt.rfc3339,
            ]
            CSVLine.write(fields.map(CSVLine.withoutFormula), to: &bytes)
        }
    }
}

extension LinkCallback {
    /// The members of a callback in a response.
    static let shape = Shape<StoredCall<LinkCallback>>(
        "LinkCallback",
        [
            .member("id", .uuid, "The id of the callback, which sorts by the time of receipt.", \.call.id),
            .nullable("resource_id", .text, "Kakao's id of the callback.", \.call.resourceID),
            .member("chat_type", .text, "The kind of chat room.", \.call.chatType),
            .member("hash_chat_id", .text, "The chat room.", \.call.hashChatID),
            .nullable(
                "template_id",
                Kind<Int64>.integer(0...Int64.max),
                "The custom template.",
                \.call.templateID
            ),
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
            .member("received_at", .time, "When Kakao called.", \.call.receivedAt),
            .member("stored_at", .time, "When the callback was stored.", \.storedAt),
        ]
    )
}
