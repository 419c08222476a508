import Endpoints
import HTTPServer
import Postgres
import Schemas
import Sharing

/// An export of link callbacks, as fast as the client reads it.
struct LinkCallbackExport: Sendable {
    /// The number of callbacks that are read at a time, of some hundred bytes each.
    static let pageSize = 500
    /// The names of the columns of CSV: the members of a callback in JSON.
    private static let columns = [
        "id", "resource_id", "chat_type", "hash_chat_id", "template_id", "args", "share_id", "signature",
        "malformed", "raw", "received_at", "stored_at",
    ]

    let pool: PostgresPool
    let format: TransferFormat

    /// Returns a response with all callbacks that `list` lists in pages, the latest first.
    func response(_ list: ListLinkCallbacks) async throws -> Response {
        var header: [UInt8] = []
        if format == .csv { CSVLine.write(Self.columns, to: &header) }
        return try await .export(format.contentType, header: header) { (last: StoredCall<LinkCallback>?) in
            var list = list
            list.before = last?.call.id ?? list.before
            return try await list.read(on: pool)
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
                callback.id.lowercased, callback.resourceID ?? "", callback.chatType ?? "", callback.hashChatID ?? "",
                callback.templateID.map { String($0) } ?? "", String(decoding: callback.args, as: UTF8.self),
                callback.signature?.shareID?.text ?? "", callback.signature?.name ?? "",
                callback.raw == nil ? "false" : "true", callback.raw ?? "",
                callback.receivedAt.rfc3339, stored.storedAt.rfc3339,
            ]
            CSVLine.write(fields.map(CSVLine.withoutFormula), to: &bytes)
        }
    }
}
