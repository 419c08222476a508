import Crypto
import Testing

@testable import Accounts

/// The encryption of tokens.
@Suite struct TokenVaultTests {
    private static let key = EncryptionKey([UInt8](repeating: 1, count: 32))
    private static let other = EncryptionKey([UInt8](repeating: 2, count: 32))
    private static let tokens = AccountTokens(accessToken: "access", refreshToken: "refresh")

    @Test("Tokens are read again with the key that encrypted them, and not in their ciphertext")
    func roundTrip() throws {
        let vault = TokenVault(appID: 1, key: try #require(Self.key), otherKeys: [])
        let sealed = vault.seal(Self.tokens, of: 7)
        let opened = try vault.open(sealed, of: 7)
        #expect(opened.accessToken == "access")
        #expect(opened.refreshToken == "refresh")
        #expect(sealed.keyID == vault.keyID)
        #expect(!String(decoding: sealed.bytes, as: UTF8.self).contains("access"))
        // A new nonce each time.
        #expect(vault.seal(Self.tokens, of: 7).bytes != sealed.bytes)
    }

    @Test("Tokens of another user or app, under another key, or altered anywhere are not read")
    func rejected() throws {
        let (key, other) = (try #require(Self.key), try #require(Self.other))
        let vault = TokenVault(appID: 1, key: key, otherKeys: [])
        let sealed = vault.seal(Self.tokens, of: 7)
        #expect(throws: UnreadableTokens.self) { try vault.open(sealed, of: 8) }
        #expect(throws: UnreadableTokens.self) {
            try TokenVault(appID: 2, key: key, otherKeys: []).open(sealed, of: 7)
        }
        #expect(throws: UnreadableTokens.self) {
            try TokenVault(appID: 1, key: other, otherKeys: []).open(sealed, of: 7)
        }
        // Under the wrong key with the id of the right one.
        let forged = TokenVault.Sealed(bytes: sealed.bytes, keyID: other.id)
        #expect(throws: UnreadableTokens.self) {
            try TokenVault(appID: 1, key: other, otherKeys: []).open(forged, of: 7)
        }
        for index in sealed.bytes.indices {
            var bytes = sealed.bytes
            bytes[index] ^= 1
            #expect(throws: UnreadableTokens.self) {
                try vault.open(TokenVault.Sealed(bytes: bytes, keyID: sealed.keyID), of: 7)
            }
        }
        for length in 0..<30 {
            let short = TokenVault.Sealed(bytes: Array(sealed.bytes.prefix(length)), keyID: sealed.keyID)
            #expect(throws: UnreadableTokens.self) { try vault.open(short, of: 7) }
        }
    }

    @Test("After a change of the key, old and new tokens are read")
    func changedKey() throws {
        let (key, other) = (try #require(Self.key), try #require(Self.other))
        let old = TokenVault(appID: 1, key: key, otherKeys: [other]).seal(Self.tokens, of: 7)
        let new = TokenVault(appID: 1, key: other, otherKeys: [key])
        #expect(try new.open(old, of: 7).accessToken == "access")
        #expect(try new.open(new.seal(Self.tokens, of: 7), of: 7).accessToken == "access")
    }

    @Test("A message for one purpose is not read for another")
    func purposes() throws {
        let vault = TokenVault(appID: 1, key: try #require(Self.key), otherKeys: [])
        let sealed = vault.seal([1, 2, 3], for: "a")
        #expect(vault.open(sealed, for: "a") == [1, 2, 3])
        #expect(vault.open(sealed, for: "b") == nil)
    }

    @Test("Neither keys nor tokens are printed")
    func printed() throws {
        let key = try #require(Self.key)
        #expect("\(key) \(String(reflecting: key)) \(Self.tokens)".contains("1, 1") == false)
        #expect("\(Self.tokens)" == "***")
        var dumped = ""
        dump((key, Self.tokens), to: &dumped)
        #expect(!dumped.contains("access") && !dumped.contains("- 1"))
    }
}
