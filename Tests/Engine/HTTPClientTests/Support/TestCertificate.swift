import CLibssl
import Net

/// A certificate for tests, signed by another one or by itself.
final class TestCertificate {
    /// What a certificate contains.
    struct Content {
        var commonName = "test"
        /// The subject alternative names, such as `DNS:a.example,IP:127.0.0.1`.
        var names: String?
        var isAuthority = false
        /// The validity in seconds from now.
        var validity = -3600...86_400
        /// The length of an RSA key. `nil` for a P-256 key.
        var rsaBits: Int32?
    }

    private let certificate: OpaquePointer
    private let key: OpaquePointer
    private let commonName: String

    /// - Parameter issuer: The authority that signs the certificate. `nil` for the certificate itself.
    init(_ content: Content, issuer: TestCertificate? = nil) throws {
        let key = try content.rsaBits.map(Self.rsaKey) ?? Self.made(clibssl_make_p256_key())
        self.key = key
        let certificate = try Self.made(X509_new())
        self.certificate = certificate
        commonName = content.commonName
        X509_set_version(certificate, 2)
        ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), .random(in: 1...UInt64(Int64.max)))
        X509_gmtime_adj(X509_getm_notBefore(certificate), content.validity.lowerBound)
        X509_gmtime_adj(X509_getm_notAfter(certificate), content.validity.upperBound)
        X509_set_pubkey(certificate, key)
        Self.add(content.commonName, to: X509_get_subject_name(certificate))
        X509_set_issuer_name(certificate, X509_get_subject_name(issuer?.certificate ?? certificate))
        try add(NID_basic_constraints, content.isAuthority ? "critical,CA:TRUE" : "critical,CA:FALSE")
        if let names = content.names { try add(NID_subject_alt_name, names) }
        guard X509_sign(certificate, issuer?.key ?? key, EVP_sha256()) > 0 else { throw TLSError("X509_sign") }
    }

    deinit {
        X509_free(certificate)
        EVP_PKEY_free(key)
    }

    private static func made(_ pointer: OpaquePointer?) throws -> OpaquePointer {
        guard let pointer else { throw TLSError("out of memory") }
        return pointer
    }

    private static func rsaKey(bits: Int32) throws -> OpaquePointer {
        let context = try made(EVP_PKEY_CTX_new_id(EVP_PKEY_RSA, nil))
        defer { EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        guard EVP_PKEY_keygen_init(context) == 1, EVP_PKEY_CTX_set_rsa_keygen_bits(context, bits) == 1,
            EVP_PKEY_keygen(context, &key) == 1
        else { throw TLSError("EVP_PKEY_keygen") }
        return try made(key)
    }

    private static func add(_ commonName: String, to name: OpaquePointer?) {
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, commonName, -1, -1, 0)
    }

    private func add(_ extensionID: Int32, _ value: String) throws {
        let part = try Self.made(X509V3_EXT_conf_nid(nil, nil, extensionID, value))
        X509_add_ext(certificate, part, -1)
        X509_EXTENSION_free(part)
    }

    /// The certificate as PEM.
    var pem: String { get throws { try Self.pem { PEM_write_bio_X509($0, certificate) } } }

    /// The private key as PEM.
    var keyPEM: String {
        get throws { try Self.pem { PEM_write_bio_PrivateKey($0, key, nil, nil, 0, nil, nil) } }
    }

    private static func pem(_ write: (OpaquePointer) -> Int32) throws -> String {
        let bio = try made(BIO_new(BIO_s_mem()))
        defer { BIO_free(bio) }
        guard write(bio) == 1 else { throw TLSError("PEM") }
        var data: UnsafeMutablePointer<CChar>?
        let count = clibssl_memory(bio, &data)
        return String(decoding: UnsafeRawBufferPointer(start: data, count: count), as: UTF8.self)
    }
}
