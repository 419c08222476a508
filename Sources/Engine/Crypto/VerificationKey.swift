import CLibssl

/// A signature algorithm of tokens (RFC 7518 §3.1). `none` is not supported.
package enum SignatureAlgorithm: String, Sendable {
    /// HMAC with SHA-256. A key that verifies can also sign.
    case hs256 = "HS256"
    /// RSA, PKCS #1 v1.5, with SHA-256.
    case rs256 = "RS256"
    /// ECDSA on P-256 with SHA-256.
    case es256 = "ES256"
}

/// A key that verifies signatures. Its algorithm is fixed, whatever a token claims: a public key never serves as the
/// secret of an HMAC.
package final class VerificationKey: Sendable {
    private enum Kind: Sendable {
        case secret(Secret)
        case rsa(PublicKey)
        case p256(PublicKey)
    }

    /// The size of an RSA modulus in bytes. Shorter keys can be broken; longer keys only cost time.
    private static let rsaBytes = 256...1024
    private static let coordinateBytes = 32

    private let kind: Kind

    /// Creates a key from a secret that is shared with the issuer.
    package init(secret: Secret) {
        kind = .secret(secret)
    }

    /// Creates an RSA key of 2048 to 8192 bits. Returns `nil` for invalid numbers.
    ///
    /// - Parameters:
    ///   - modulus: Big-endian.
    ///   - exponent: Big-endian, at most 8 octets.
    package init?(modulus: [UInt8], exponent: [UInt8]) {
        let modulus = Array(modulus.drop { $0 == 0 })
        let exponent = Array(exponent.drop { $0 == 0 })
        guard Self.rsaBytes.contains(modulus.count), (1...8).contains(exponent.count),
            let last = exponent.last, last % 2 == 1, exponent != [1],
            let key = PublicKey(
                subjectPublicKeyInfo: DER.subjectPublicKeyInfo(
                    algorithm: DER.rsaEncryption,
                    key: DER.sequence(DER.integer(modulus) + DER.integer(exponent))
                )
            )
        else { return nil }
        kind = .rsa(key)
    }

    /// Creates a key from a point on the curve P-256. Returns `nil` for invalid coordinates.
    package init?(x: [UInt8], y: [UInt8]) {
        guard x.count == Self.coordinateBytes, y.count == Self.coordinateBytes,
            let key = PublicKey(
                subjectPublicKeyInfo: DER.subjectPublicKeyInfo(algorithm: DER.p256, key: [4] + x + y)
            )
        else { return nil }
        kind = .p256(key)
    }

    package var algorithm: SignatureAlgorithm {
        switch kind {
        case .secret: .hs256
        case .rsa: .rs256
        case .p256: .es256
        }
    }

    /// Returns whether `signature` is this key's signature of `message`.
    package func verifies(_ signature: [UInt8], of message: [UInt8]) -> Bool {
        switch kind {
        case .secret(let secret):
            return HMACSHA256.isValid(signature, of: message, secret)
        case .rsa(let key):
            return key.verifies(signature, of: message)
        case .p256(let key):
            // The signature is two concatenated numbers (RFC 7518 §3.4), but OpenSSL expects DER.
            guard signature.count == Self.coordinateBytes * 2 else { return false }
            let numbers = [signature.prefix(Self.coordinateBytes), signature.suffix(Self.coordinateBytes)]
            return key.verifies(
                DER.sequence(numbers.flatMap { DER.integer(Array($0.drop { $0 == 0 })) }),
                of: message
            )
        }
    }
}

/// A public key in OpenSSL's representation.
private final class PublicKey: @unchecked Sendable {
    // The key is immutable, and OpenSSL only reads it: any thread may verify with it.
    private let key: OpaquePointer

    /// - Parameter bytes: A SubjectPublicKeyInfo in DER (RFC 5280 §4.1.2.7). OpenSSL checks that a point is on its
    ///   curve.
    init?(subjectPublicKeyInfo bytes: [UInt8]) {
        let key = bytes.withUnsafeBufferPointer { bytes in
            var start = bytes.baseAddress
            return d2i_PUBKEY(nil, &start, bytes.count)
        }
        guard let key else {
            ERR_clear_error()
            return nil
        }
        self.key = key
    }

    deinit { EVP_PKEY_free(key) }

    func verifies(_ signature: [UInt8], of message: [UInt8]) -> Bool {
        guard let context = EVP_MD_CTX_new() else { return false }
        defer {
            EVP_MD_CTX_free(context)
            // Clears OpenSSL's error queue, so that a later call does not find the error of a bad signature.
            ERR_clear_error()
        }
        return EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1
            && EVP_DigestVerify(context, signature, signature.count, message, message.count) == 1
    }
}

/// The subset of DER (X.690) that keys and signatures need.
private enum DER {
    /// The algorithm rsaEncryption: 1.2.840.113549.1.1.1 and NULL.
    static let rsaEncryption: [UInt8] = [
        0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01, 0x05, 0x00,
    ]
    /// The algorithm ecPublicKey on P-256: 1.2.840.10045.2.1 and 1.2.840.10045.3.1.7.
    static let p256: [UInt8] = [
        0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01,
        0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07,
    ]

    static func subjectPublicKeyInfo(algorithm: [UInt8], key: [UInt8]) -> [UInt8] {
        sequence(sequence(algorithm) + element(0x03, [0] + key))
    }

    static func sequence(_ content: [UInt8]) -> [UInt8] {
        element(0x30, content)
    }

    /// Encodes a non-negative number.
    ///
    /// - Parameter magnitude: Big-endian, without leading zeros.
    static func integer(_ magnitude: [UInt8]) -> [UInt8] {
        element(0x02, (magnitude.first ?? 0x80) >= 0x80 ? [0] + magnitude : magnitude)
    }

    private static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        switch content.count {
        case ..<0x80: [tag, UInt8(content.count)] + content
        case ..<0x100: [tag, 0x81, UInt8(content.count)] + content
        default:
            [tag, 0x82, UInt8(truncatingIfNeeded: content.count >> 8), UInt8(truncatingIfNeeded: content.count)]
                + content
        }
    }
}
