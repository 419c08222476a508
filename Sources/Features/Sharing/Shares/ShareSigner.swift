package import Crypto
package import FoundationEssentials
import Schemas

/// The signatures of the arguments that a phone passes on to Kakao with a share, and that come back in Kakao's callback.
///
/// The phone could change them. Therefore a share's arguments have one more, ``argument``, whose text is
/// `ID.EXPIRES.MAC`: the share's id, the time of expiry in seconds since 1970, and 16 bytes of an HMAC-SHA256 over id,
/// expiry and the arguments sorted by name, each part preceded by its length.
package struct ShareSigner: Sendable {
    /// The name of the argument that holds the signature.
    package static let argument = "share"

    /// The number of bytes to which a code is truncated. 128 bits cannot be guessed, and keep the argument short.
    private static let codeLength = 16

    /// The key that signs; `nil` if this server only verifies.
    private let signingKey: Secret?
    /// The keys that verify, the signing key first.
    private let keys: [Secret]

    /// Creates a signer; `nil` without any key.
    package init?(signingKey: Secret?, verificationKeys: [Secret]) {
        self.signingKey = signingKey
        keys = (signingKey.map { [$0] } ?? []) + verificationKeys
        guard !keys.isEmpty else { return nil }
    }

    /// Whether this server can sign.
    package var canSign: Bool { signingKey != nil }

    /// The outcome of the check of a callback's arguments.
    package enum Verdict: Sendable, Equatable {
        /// This service signed exactly these arguments for this share.
        case valid(ShareID)
        /// This service signed them, for a time that has passed.
        case expired
        /// The arguments were altered or forged, or signed with a key that this server does not have.
        case invalid

        /// The names of all outcomes.
        package static let names = ["valid", "expired", "invalid"]

        /// The name in the database and for operators.
        package var name: String {
            switch self {
            case .valid: "valid"
            case .expired: "expired"
            case .invalid: "invalid"
            }
        }

        /// Restores a stored outcome; `nil` for a name that is none.
        package init?(name: String?, shareID: ShareID?) {
            switch (name, shareID) {
            case ("valid", let id?): self = .valid(id)
            case ("expired", _): self = .expired
            case ("invalid", _): self = .invalid
            default: return nil
            }
        }

        /// The share of a valid signature.
        package var shareID: ShareID? {
            guard case .valid(let id) = self else { return nil }
            return id
        }
    }

    /// The parameters that Kakao adds to the callbacks of some apps.
    private static let knownOfKakao: Set<String> = ["IS_SINGLE_CHATROOM", "CHAT_MEMBER_COUNT_RANGE"]

    /// Returns whether an argument belongs to Kakao, which names its own parameters in capitals, such as `CHAT_TYPE`.
    ///
    /// Such names are never signed: a parameter that Kakao adds to its callbacks must not invalidate all signatures.
    package static func isOfKakao(_ name: String) -> Bool {
        guard let first = name.utf8.first, (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(first) else { return false }
        return name.utf8.allSatisfy { octet in
            switch octet {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"): true
            default: false
            }
        }
    }

    /// Returns whether an argument of a callback with a valid signature is signed, or a known one of Kakao. Others in capitals
    /// are not trusted: a phone can add them.
    package static func isTrusted(_ name: String) -> Bool { !isOfKakao(name) || knownOfKakao.contains(name) }

    /// Returns the value of ``argument`` for a share.
    ///
    /// - Parameter args: The other arguments.
    /// - Precondition: ``canSign``.
    package func signature(of id: ShareID, expiresAt: Date, _ args: [(name: String, value: String)]) -> String {
        guard let signingKey else { preconditionFailure("there is no signing key") }
        let expiry = String(Int64(expiresAt.timeIntervalSince1970))
        let code = HMACSHA256.code(of: Self.message(id.text, expiry, args), signingKey)
        return "\(id.text).\(expiry).\(Base64URL.encode(Array(code.prefix(Self.codeLength))))"
    }

    /// Checks the arguments of a callback.
    ///
    /// - Parameters:
    ///   - signature: The value of ``argument``.
    ///   - args: The other arguments, in any order.
    ///   - now: The time at which the callback was received.
    package func verify(_ signature: String, _ args: [(name: String, value: String)], at now: Date) -> Verdict {
        let parts = signature.split(separator: ".", maxSplits: 3, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3, let id = ShareID(parts[0]), let expiry = Int64(decimal: parts[1]),
            let code = Base64URL.decode(parts[2].utf8)
        else { return .invalid }
        let message = Self.message(parts[0], parts[1], args)
        guard keys.contains(where: { HMACSHA256.isValid(code, of: message, $0, length: Self.codeLength) }) else {
            return .invalid
        }
        return Double(expiry) > now.timeIntervalSince1970 ? .valid(id) : .expired
    }

    private static func message(_ id: String, _ expiry: String, _ args: [(name: String, value: String)]) -> [UInt8] {
        let signed = args.filter { !isOfKakao($0.name) }.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
        return message([id, expiry] + signed.flatMap { [$0.name, $0.value] })
    }

    /// Returns a code by which servers with the same key recognize a visitor of a share's links. Nobody else can compute
    /// it from the address.
    package func visitor(address: String, userAgent: String) -> [UInt8] {
        // The first part of a signed text is the id of a share, never `visitor`: the two kinds of codes cannot be confused.
        let message = Self.message(["visitor", address, userAgent])
        return Array(HMACSHA256.code(of: message, keys[0]).prefix(Self.codeLength))
    }

    /// Returns texts, each preceded by its length in bytes as four bytes, so that no other texts give the same bytes.
    private static func message(_ parts: [String]) -> [UInt8] {
        var bytes: [UInt8] = []
        for part in parts {
            let length = UInt32(clamping: part.utf8.count)
            for shift in [24, 16, 8, 0] as [UInt32] { bytes.append(UInt8(truncatingIfNeeded: length >> shift)) }
            bytes += part.utf8
        }
        return bytes
    }
}
