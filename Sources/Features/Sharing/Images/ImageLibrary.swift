import Crypto
import Endpoints
import EventLoop
import FoundationEssentials
import HTTPServer
import HTTPTypes
import KakaoAPI
import Logging
import Runtime

/// The images that the server keeps for messages, on one event loop. Each content is stored once, and uploaded to Kakao
/// once for as long as Kakao keeps it, whatever number of servers and requests need it.
struct ImageLibrary: Sendable {
    /// The time for which a request waits for the upload that another one makes.
    private static let wait = Duration.seconds(10)
    private static let pollInterval = Duration.milliseconds(100)
    /// The number of attempts to store an image whose content others store and delete at the same time.
    private static let maximumStoreAttempts = 5
    /// The remaining life in seconds up to which a copy is used if Kakao accepts no new one.
    private static let minimumUse: TimeInterval = 86_400

    let store: ImageStore
    let kakao: KakaoClient
    let loop: EventLoop
    let maximumTotalBytes: Int
    /// The limit of concurrent uploads to Kakao, whose images are in memory.
    let uploads: ConcurrencyLimit
    let logger: Logger

    /// Stores an image, unless its content is stored already.
    ///
    /// - Parameter record: Returns the record of a new image for the audit log.
    /// - Returns: The image, and whether it is new.
    /// - Throws: ``Problem`` 507 if the images take all space that they may take.
    func add(
        _ header: ImageHeader,
        _ bytes: [UInt8],
        recording record: (UUID) -> AuditRecord?
    ) async throws -> (StoredImage, isNew: Bool) {
        let sha256 = SHA256Digest.of(bytes)
        for _ in 1...Self.maximumStoreAttempts {
            if let image = try await store.find(sha256: sha256) { return (image, false) }
            let new = NewImage(id: .v7(), header: header, sha256: sha256, bytes: bytes)
            let isNew = try await store.insert(new, maximumTotal: maximumTotalBytes, recording: record(new.id))
            // Concurrent requests may have stored the same content, and deleted it again.
            if let image = try await store.find(sha256: sha256) { return (image, isNew) }
        }
        throw Problem(
            of: .imagesFull,
            "The stored images take all of `images.max_total_bytes`. Delete some, or increase it."
        )
    }

    /// Returns an image whose copy at Kakao remains for at least ten days. It is uploaded if there is none; if that fails, a copy
    /// that remains for more than a day is used.
    ///
    /// - Returns: `nil` if there is no such image.
    /// - Throws: ``Problem``: 409 without an app key, 503 if Kakao is unavailable or other uploads take long, and the
    ///   reason if Kakao rejects the image.
    func fresh(_ id: UUID) async throws -> StoredImage? {
        let deadline = MonotonicTime.now + Self.wait
        while true {
            guard let image = try await store.find(id) else { return nil }
            if image.copy?.isFresh == true { return image }
            guard kakao.settings.app != nil else { throw Problem.appKeyCallsDisabled }
            do {
                if !image.isLeased, let uploaded = try await claimAndUpload(id) { return uploaded }
            } catch {
                // A message that is sent now still shows the old copy for a while.
                if let copy = image.copy, copy.expiresAt.timeIntervalSinceNow > Self.minimumUse { return image }
                throw error
            }
            guard MonotonicTime.now < deadline else {
                throw Problem(
                    of: .kakaoUnavailable,
                    "Another request is uploading the image to Kakao. Try again.",
                    headerFields: [.retryAfter: "5"]
                )
            }
            try await loop.sleep(for: Self.pollInterval)
        }
    }

    /// Uploads an image, unless another request does. An upload that has begun ends even if its client has gone, since
    /// others may wait for it.
    private func claimAndUpload(_ id: UUID) async throws -> StoredImage? {
        try await Task(executorPreference: loop) { () -> StoredImage? in
            try await uploads.run(on: loop) {
                guard let claim = try await store.claim(id) else { return nil }
                return try await upload(claim)
            }
        }.value
    }

    /// Uploads an image that was claimed. No transaction is open meanwhile.
    ///
    /// - Returns: `nil` if the lease has ended meanwhile, or the image was deleted.
    private func upload(_ claim: ImageClaim) async throws -> StoredImage? {
        let url: String
        do throws(KakaoError) {
            url = try await kakao.call(UploadImage(), as: .appKey, uploads: [KakaoUpload(claim.format, claim.bytes)])
                .url
            guard url.hasPrefix("https://") || url.hasPrefix("http://") else {
                throw KakaoError(kind: .unrecognized(UnrecognizedResponse(status: 200)), credential: .appKey)
            }
        } catch {
            logger.info("Image upload failed", metadata: ["image": "\(claim.id.lowercased)", "kakao": "\(error)"])
            // If this fails too, the lease ends by itself.
            try? await store.release(claim)
            throw Problem(error, about: "the image", isIdempotent: true)
        }
        return try await store.complete(claim, url: url)
    }
}

extension ImageLibrary: ImageSource {
    func url(of id: UUID) async throws -> String? {
        try await fresh(id)?.copy?.url
    }
}

// MARK: Problems

extension ProblemKind {
    static let imagesFull = ProblemKind(
        HTTPResponse.Status(code: 507, reasonPhrase: "Insufficient Storage"),
        "images-full",
        "The stored images take all the space that they may take."
    )
}

extension Problem {
    static var appKeyCallsDisabled: Problem {
        Problem(
            of: .notConfigured,
            "Images are uploaded to Kakao with an app key. Set `sharing.app_key_calls`, `sharing.ka_header` and `kakao.native_app_key`."
        )
    }
}
