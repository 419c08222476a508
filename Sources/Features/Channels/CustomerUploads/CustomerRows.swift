import FoundationEssentials
import JSON
import KakaoAPI
import Postgres
import Schemas

/// The users of an upload as rows of ``columns`` for `COPY … FROM STDIN (FORMAT binary)`, one for each part. Pure.
struct CustomerRows {
    static let columns: SQL = "customer_upload_users (upload_id, number, users, user_count, user_ids)"

    /// The size from which on a part is complete: gateways, and the sandbox, accept bodies of up to 1 MiB.
    private static let maximumBytes = 512 * 1024

    private let uploadID: UUID
    private let type: CustomerType
    private var rows = PostgresCopyRows()
    private var number: Int32 = 0
    /// The elements of the part's JSON array, and its opening bracket.
    private var json: [UInt8] = []
    private var count: Int32 = 0
    private var userIDs: [Int64] = []

    init(of upload: CustomerUpload) {
        uploadID = upload.id
        type = upload.type
    }

    /// Whether there was no user.
    var isEmpty: Bool { number == 0 && count == 0 }

    /// The number of bytes to send.
    var byteCount: Int { rows.bytes.count }

    /// Appends users.
    ///
    /// - Throws: ``PostgresError`` for a value that PostgreSQL cannot store.
    mutating func append(_ customers: [Customer]) throws(PostgresError) {
        for customer in customers {
            json.append(UInt8(ascii: json.isEmpty ? "[" : ","))
            var writer = JSONWriter()
            Customer.kind.write(customer, &writer)
            json += writer.bytes
            count += 1
            if type == .app, let id = customer.userID { userIDs.append(id) }
            if count == UpdateCustomers.maximumUsers || json.count >= Self.maximumBytes { try endPart() }
        }
    }

    /// Appends the last part and the trailer.
    ///
    /// - Throws: As ``append(_:)``.
    mutating func end() throws(PostgresError) {
        if count > 0 { try endPart() }
        rows.appendTrailer()
    }

    private mutating func endPart() throws(PostgresError) {
        number += 1
        json.append(UInt8(ascii: "]"))
        try rows.append([
            .uuid(uploadID), .int32(number), .jsonb(json), .int32(count), .int64s(type == .app ? userIDs : nil),
        ])
        json.removeAll(keepingCapacity: true)
        userIDs.removeAll(keepingCapacity: true)
        count = 0
    }

    /// Removes and returns the bytes to send next.
    mutating func drain() -> [UInt8] { rows.take() }
}
