import Crypto
import JSON

/// The encryption of tokens (AES-256-GCM).
///
/// Each account has a key of its own, derived from the setting's key with HMAC-SHA256 over the app and the user, which
/// are authenticated too. A row that is copied to another user or another app cannot be decrypted.
struct TokenVault: Sendable {
    /// The encrypted tokens of an account.
    struct Sealed: Sendable {
        let bytes: [UInt8]
        /// The id of the key that encrypted them.
        let keyID: String
    }

    private let appID: Int64
    /// The key that encrypts.
    private let key: EncryptionKey
    /// All keys that decrypt, by their ids.
    private let keys: [String: EncryptionKey]

    /// - Parameters:
    ///   - key: The key that encrypts, and decrypts.
    ///   - otherKeys: Further keys that decrypt.
    init(appID: Int64, key: EncryptionKey, otherKeys: [EncryptionKey]) {
        self.appID = appID
        self.key = key
        keys = Dictionary(([key] + otherKeys).map { ($0.id, $0) }) { first, _ in first }
    }

    /// The ids of all keys that decrypt.
    var keyIDs: [String] { keys.keys.sorted() }

    /// The id of the key that encrypts.
    var keyID: String { key.id }

    func seal(_ tokens: AccountTokens, of userID: Int64) -> Sealed {
        var json = JSONWriter()
        json.object {
            $0.member("access_token", tokens.accessToken)
            $0.member("refresh_token", tokens.refreshToken)
        }
        let context = context(userID)
        return Sealed(bytes: key.derived(for: context).seal(json.bytes, authenticating: context), keyID: key.id)
    }

    /// Returns the tokens of an account.
    ///
    /// - Throws: ``UnreadableTokens`` if this server does not have the key, or the row was altered.
    func open(_ sealed: Sealed, of userID: Int64) throws(UnreadableTokens) -> AccountTokens {
        guard let key = keys[sealed.keyID] else { throw UnreadableTokens(userID: userID, isKeyMissing: true) }
        let context = context(userID)
        guard let bytes = key.derived(for: context).open(sealed.bytes, authenticating: context),
            let json = try? JSONValue(parsing: bytes, maximumDepth: 2),
            let accessToken = json["access_token"]?.string
        else { throw UnreadableTokens(userID: userID, isKeyMissing: false) }
        return AccountTokens(accessToken: accessToken, refreshToken: json["refresh_token"]?.string)
    }

    /// Encrypts a message that is not of an account, such as the state of a login.
    ///
    /// - Parameter purpose: What the message is for, and what it belongs to. It is authenticated.
    func seal(_ message: [UInt8], for purpose: String) -> [UInt8] {
        let context = Array(purpose.utf8)
        return key.derived(for: context).seal(message, authenticating: context)
    }

    /// Decrypts a message that was encrypted for the same purpose, under any of the keys; `nil` for another message.
    func open(_ sealed: [UInt8], for purpose: String) -> [UInt8]? {
        let context = Array(purpose.utf8)
        return keys.values.lazy.compactMap { $0.derived(for: context).open(sealed, authenticating: context) }.first
    }

    private func context(_ userID: Int64) -> [UInt8] { Array("account \(appID) \(userID)".utf8) }
}

/// Encrypted tokens that this server cannot decrypt. The account needs an operator, not a login.
struct UnreadableTokens: Error, CustomStringConvertible {
    let userID: Int64
    /// Whether the key is missing; otherwise the row was altered.
    let isKeyMissing: Bool

    var description: String {
        isKeyMissing
            ? "the tokens of user \(userID) were encrypted with a key that is neither accounts.encryption_key nor one of accounts.decryption_keys"
            : "the encrypted tokens of user \(userID) were altered"
    }
}
