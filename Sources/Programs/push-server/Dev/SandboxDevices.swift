import EventLoop
import HTTPClient
import KakaoAPI
import Logging
import Net
import Postgres
import Server
import Settings

/// The devices of a development database, which a sandbox does not know after its start.
struct SandboxDevices {
    private static let pageSize = 1000
    private static let concurrentCalls = 16

    let settings: Settings
    let logger: Logger

    /// Registers the devices at the sandbox that PostgreSQL has as registered there.
    func register() async throws {
        try await settings.withDatabase(logger: logger) { pool, loop in
            let trust = try TrustStore.reading(settings.kakao.caCertificateFile)
            let client = HTTPClient(settings: HTTPClientSettings(trust: trust), loop: loop)
            do {
                try await register(pool, KakaoClient(settings: settings.kakao.api, client: client))
            } catch {
                await client.shutdown()
                throw error
            }
            await client.shutdown()
        }
    }

    private func register(_ pool: PostgresPool, _ kakao: KakaoClient) async throws {
        var last: RegisterPushToken?
        var (count, failed) = (0, 0)
        while true {
            let page = try await pool.read(ListKakaoDevices(after: last, limit: Int32(Self.pageSize)))
            failed += await register(page, kakao)
            count += page.count
            last = page.last
            guard page.count == Self.pageSize else { break }
        }
        guard count > 0 else { return }
        logger.log(
            level: failed == 0 ? .notice : .warning,
            "Devices of the database registered at the sandbox",
            metadata: ["devices": "\(count - failed)", "failed": "\(failed)"]
        )
    }

    /// Registers devices, and returns the number of those that the sandbox did not accept.
    private func register(_ page: [RegisterPushToken], _ kakao: KakaoClient) async -> Int {
        let calls: [@Sendable () async -> Int] = (0..<Self.concurrentCalls).map { start in
            {
                var failed = 0
                for index in stride(from: start, to: page.count, by: Self.concurrentCalls) {
                    let lifetime = try? await kakao.call(page[index])
                    if lifetime == nil { failed += 1 }
                }
                return failed
            }
        }
        return await concurrently(calls).reduce(0, +)
    }
}

// MARK: Statements

/// Lists a page of the devices that are registered at Kakao.
struct ListKakaoDevices: PostgresStatement {
    static let sql: SQL = """
        SELECT user_id, device_id, push_type, push_token
        FROM devices
        WHERE NOT withdrawn
            AND kakao_revision > 0
            AND (expires_at IS NULL OR expires_at > now())
            AND (user_id, device_id, push_type) > ($1, $2, $3)
        ORDER BY user_id, device_id, push_type
        LIMIT $4
        """

    /// The last device of the page before.
    let after: RegisterPushToken?
    let limit: Int32

    var parameters: [PostgresValue] {
        [.int64(after?.userID ?? 0), .text(after?.deviceID ?? ""), .text(after?.pushType ?? ""), .int32(limit)]
    }

    static func decode(_ row: PostgresRow) throws -> RegisterPushToken {
        try row.decode { column in
            let (userID, deviceID, pushType) = (
                try column.next() as Int64, try column.next() as String, try column.next() as String
            )
            return RegisterPushToken(
                // Version 2 has the database's names of push types.
                version: .v2,
                userID: userID,
                deviceID: deviceID,
                pushType: PushType.allCases.first { $0.name(in: .v2) == pushType } ?? .fcm,
                pushToken: try column.next()
            )
        }
    }
}
