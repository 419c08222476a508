import Crypto
import FoundationEssentials
import Settings

/// The keys of a development server, which are generated once and stored beside its database.
struct DevKeys {
    let operatorKey: String
    let adminKey: String
    let feedbackSecret: String
    /// The key that encrypts users' tokens, in Base64. Without it, the tokens in the database are lost.
    let encryptionKey: String
    /// The key that signs shares. Without it, the shares in the database are unknown.
    let signingKey: String

    init(directory: String) throws {
        func key(_ name: String, _ make: () -> String = { RandomKey.hexadecimal(words: 2) }) throws -> String {
            let path = "\(directory)/\(name)"
            if let text = FileContents.read(path), !text.isEmpty { return String(decoding: text, as: UTF8.self) }
            let key = make()
            try PrivateFile.write(key, to: path)
            return key
        }
        operatorKey = try key("operator.key")
        adminKey = try key("kakao-admin.key")
        feedbackSecret = try key("feedback.secret")
        encryptionKey = try key("accounts-encryption.key") {
            Data(RandomKey.bytes(EncryptionKey.length)).base64EncodedString()
        }
        signingKey = try key("sharing-signing.key")
    }
}
