import Endpoints
import FoundationEssentials
import KakaoAPI
import Postgres

/// The images in PostgreSQL.
struct ImageStore: Sendable {
    /// The time for which Kakao keeps an image. (Kakao, "Kakao Link: iOS", "Upload image".)
    static let lifeAtKakao = Duration.seconds(20 * 86_400)
    /// The remaining life below which an image is uploaded again, so that a message that is sent now shows its images
    /// for some time.
    static let minimumLife = Duration.seconds(10 * 86_400)
    /// The duration of a lease. It exceeds the time limit of the upload, so that a lease ends only if its server has
    /// crashed or cannot reach the database.
    static let leaseDuration = UploadImage.timeout + .seconds(30)
    /// The pause after an upload that failed, so that the waiting requests do not repeat it all at once.
    static let pauseAfterFailure = Duration.seconds(1)

    let pool: PostgresPool

    func find(_ id: UUID) async throws -> StoredImage? {
        try await pool.read(FindImage(id: id)).first
    }

    func find(sha256: [UInt8]) async throws -> StoredImage? {
        try await pool.read(FindImageByContent(sha256: sha256)).first
    }

    /// Stores an image, unless its content is stored already or `maximumTotal` bytes do not suffice. Returns whether it
    /// was stored.
    func insert(_ image: NewImage, maximumTotal: Int, recording record: AuditRecord?) async throws -> Bool {
        // The parameter is large: other statements would wait behind it.
        try await pool.withTransaction { transaction in
            let isNew = try await !transaction.query(InsertImage(image: image, maximumTotal: maximumTotal)).isEmpty
            if isNew { try await transaction.record(record) }
            return isNew
        }
    }

    /// Claims the upload of an image whose copy at Kakao is missing or about to expire, and that no one else uploads.
    ///
    /// - Returns: `nil` if there is nothing to upload, or another server uploads it.
    func claim(_ id: UUID) async throws -> ImageClaim? {
        try await pool.queryAlone(ClaimImage(id: id, lease: .v7())).first
    }

    /// Stores the address at Kakao. Returns `nil` if the lease has ended or the image was deleted.
    func complete(_ claim: ImageClaim, url: String) async throws -> StoredImage? {
        try await pool.write(CompleteImage(claim: claim, url: url)).first
    }

    /// Releases the claim of an upload that failed, after a pause.
    func release(_ claim: ImageClaim) async throws {
        try await pool.write(ReleaseImage(claim: claim))
    }
}

/// An image that may not be stored yet.
struct NewImage: Sendable {
    let id: UUID
    let header: ImageHeader
    let sha256: [UInt8]
    let bytes: [UInt8]
}

/// The claim to upload an image.
struct ImageClaim: Sendable {
    let id: UUID
    let lease: UUID
    let format: ImageHeader.Format
    let bytes: [UInt8]
}

// MARK: Statements

/// Finds an image by its id.
struct FindImage: PostgresStatement {
    static let sql: SQL = """
        SELECT \(StoredImage.columns)
        FROM images
        WHERE id = $2
        """

    let id: UUID

    var parameters: [PostgresValue] { [StoredImage.minimumLife, .uuid(id)] }
    static func decode(_ row: PostgresRow) throws -> StoredImage { try row.decode { try StoredImage(&$0) } }
}

/// Finds an image by the digest of its content.
struct FindImageByContent: PostgresStatement {
    static let sql: SQL = """
        SELECT \(StoredImage.columns)
        FROM images
        WHERE sha256 = $2
        """

    let sha256: [UInt8]

    var parameters: [PostgresValue] { [StoredImage.minimumLife, .bytes(sha256)] }
    static func decode(_ row: PostgresRow) throws -> StoredImage { try row.decode { try StoredImage(&$0) } }
}

/// Lists the images, the latest first.
struct ListImages: PostgresStatement {
    static let sql: SQL = """
        SELECT \(StoredImage.columns)
        FROM images
        WHERE $2::uuid IS NULL OR id < $2
        ORDER BY id DESC
        LIMIT $3
        """

    let before: UUID?
    let limit: Int

    var parameters: [PostgresValue] { [StoredImage.minimumLife, .uuid(before), .int64(Int64(limit))] }
    static func decode(_ row: PostgresRow) throws -> StoredImage { try row.decode { try StoredImage(&$0) } }
}

/// Inserts an image and counts its size, if its content is new and the limit of all sizes allows it. Returns the new
/// size of all images, or no row.
///
/// The row of `image_storage` is locked first, so that concurrent statements see each other's images.
struct InsertImage: PostgresStatement {
    static let sql: SQL = """
        WITH storage AS (
            SELECT bytes
            FROM image_storage
            FOR UPDATE
        ),
        inserted AS (
            INSERT INTO images (id, sha256, content_type, width, height, size, bytes)
            SELECT $1, $2, $3, $4, $5, length($6::bytea), $6
            FROM storage
            WHERE storage.bytes + length($6::bytea) <= $7
            ON CONFLICT (sha256) DO NOTHING
            RETURNING size
        )
        UPDATE image_storage
        SET bytes = image_storage.bytes + inserted.size
        FROM inserted
        RETURNING image_storage.bytes
        """

    let image: NewImage
    let maximumTotal: Int

    var parameters: [PostgresValue] {
        [
            .uuid(image.id), .bytes(image.sha256), .text(image.header.format.contentType),
            .int32(Int32(clamping: image.header.width)), .int32(Int32(clamping: image.header.height)),
            .bytes(image.bytes), .int64(Int64(maximumTotal)),
        ]
    }
    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}

/// Claims the upload of an image under a lease, if its copy at Kakao is missing or about to expire, and no other lease
/// is valid.
struct ClaimImage: PostgresStatement {
    static let sql: SQL = """
        UPDATE images
        SET lease = $2,
            lease_ends_at = now() + make_interval(secs => $3)
        WHERE id = $1
            AND (expires_at IS NULL OR expires_at <= now() + make_interval(secs => $4))
            AND (lease IS NULL OR lease_ends_at <= now())
        RETURNING id, lease, content_type, bytes
        """

    let id: UUID
    let lease: UUID

    var parameters: [PostgresValue] {
        [.uuid(id), .uuid(lease), .float64(ImageStore.leaseDuration.inSeconds), StoredImage.minimumLife]
    }
    static func decode(_ row: PostgresRow) throws -> ImageClaim {
        let (id, lease, contentType, bytes) = try row.decode(UUID.self, UUID.self, String.self, [UInt8].self)
        guard let format = ImageHeader.Format(rawValue: contentType) else {
            throw PostgresError(.decoding, detail: "unknown type of an image: \(contentType)")
        }
        return ImageClaim(id: id, lease: lease, format: format, bytes: bytes)
    }
}

/// Stores the address at Kakao of an image that was claimed, and releases the claim. Changes nothing under another
/// lease.
struct CompleteImage: PostgresStatement {
    static let sql: SQL = """
        UPDATE images
        SET url = $4,
            expires_at = now() + make_interval(secs => $5),
            lease = NULL,
            lease_ends_at = NULL
        WHERE id = $2
            AND lease = $3
        RETURNING \(StoredImage.columns)
        """

    let claim: ImageClaim
    let url: String

    var parameters: [PostgresValue] {
        [
            StoredImage.minimumLife, .uuid(claim.id), .uuid(claim.lease), .text(url),
            .float64(ImageStore.lifeAtKakao.inSeconds),
        ]
    }
    static func decode(_ row: PostgresRow) throws -> StoredImage { try row.decode { try StoredImage(&$0) } }
}

/// Ends the claim of an upload that failed, after a pause. Changes nothing under another lease.
struct ReleaseImage: PostgresStatement {
    static let sql: SQL = """
        UPDATE images
        SET lease_ends_at = now() + make_interval(secs => $3)
        WHERE id = $1
            AND lease = $2
        """

    let claim: ImageClaim

    var parameters: [PostgresValue] {
        [.uuid(claim.id), .uuid(claim.lease), .float64(ImageStore.pauseAfterFailure.inSeconds)]
    }
}

/// Deletes an image, and no longer counts its size.
///
/// The row of `image_storage` is locked first, as ``InsertImage`` does: otherwise the two could wait for each other.
struct DeleteKeptImage: PostgresStatement {
    static let sql: SQL = """
        WITH storage AS MATERIALIZED (
            SELECT bytes
            FROM image_storage
            FOR UPDATE
        ),
        deleted AS (
            DELETE FROM images
            USING storage
            WHERE id = $1
            RETURNING size
        )
        UPDATE image_storage
        SET bytes = image_storage.bytes - deleted.size
        FROM deleted
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }
}

extension StoredImage {
    /// The columns of an image. `$1` is ``minimumLife``.
    fileprivate static let columns: SQL = """
        id, content_type, width, height, size, created_at, url, expires_at,
            COALESCE(expires_at > now() + make_interval(secs => $1), false),
            COALESCE(lease_ends_at > now(), false)
        """

    fileprivate static var minimumLife: PostgresValue { .float64(ImageStore.minimumLife.inSeconds) }

    /// Decodes ``columns``.
    fileprivate init(_ column: inout ColumnCursor) throws {
        try self.init(
            id: column.next(),
            contentType: column.next(),
            width: column.next(),
            height: column.next(),
            size: column.next(),
            createdAt: column.next(),
            copy: Copy(url: column.next(), expiresAt: column.next(), isFresh: column.next()),
            isLeased: column.next()
        )
    }
}
