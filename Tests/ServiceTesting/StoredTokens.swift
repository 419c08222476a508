package import Crypto
import FoundationEssentials
import Postgres
import TestSupport
import Testing

@testable import Accounts

extension EncryptionKey {
    /// Returns a new key, and its text in the settings.
    package static func random() throws -> (key: EncryptionKey, text: String) {
        let bytes = RandomKey.bytes(EncryptionKey.length)
        return (try #require(EncryptionKey(bytes)), Data(bytes).base64EncodedString())
    }
}

extension TestDatabase {
    /// The app that the tokens of tests belong to.
    package static let appID: Int64 = 123_456

    /// Stores accounts as a login does, with the access token `access-ID` and the refresh token `refresh-ID`.
    package func addAccounts(
        _ userIDs: some Sequence<Int64>,
        _ key: EncryptionKey,
        accessTokenLifetime: Double = 21_600
    ) async throws {
        let vault = TokenVault(appID: Self.appID, key: key, otherKeys: [])
        for userID in userIDs {
            let issued = IssuedTokens(
                tokens: AccountTokens(accessToken: "access-\(userID)", refreshToken: "refresh-\(userID)"),
                accessTokenLifetime: accessTokenLifetime,
                refreshTokenLifetime: 5_184_000,
                scopes: ["profile_nickname", "friends"]
            )
            let login = Login(userID: userID, appKey: .rest, refreshedBy: .server, issued: issued, isVerified: true)
            _ = try await pool.write(StoreLogin(login: login, sealed: vault.seal(issued.tokens, of: userID))) as [Bool]
        }
    }
}
