import CLibssl

/// A self-signed certificate for development servers, the sandbox and tests, so that TLS is verified there too.
///
/// iOS accepts it once it is installed as trusted: it is for the authentication of servers, has its names as alternative names, and
/// is valid for at most 825 days (Apple, "Requirements for trusted certificates in iOS 13 and macOS 10.15").
package struct SelfSignedCertificate: Sendable {
    /// The certificate as PEM. A client that has it as its only authority trusts it.
    package let certificate: [UInt8]
    /// The private key as PEM.
    package let privateKey: [UInt8]

    /// The names of this machine for itself, and its address in Android's emulator.
    private static let localNames = ["localhost", "127.0.0.1", "::1", "10.0.2.2"]

    /// Generates a P-256 key and a certificate for `localhost`, `127.0.0.1`, `::1` and `10.0.2.2` (this machine in Android's
    /// emulator), valid for `days` from now.
    ///
    /// - Parameters:
    ///   - days: At most 824, since the certificate is valid from yesterday on.
    ///   - names: Further host names and numeric addresses that it is for.
    ///   - hasAlternativeNames: Whether it has all these names. Otherwise it has only the common name `localhost`, for which
    ///     no client may accept it.
    /// - Throws: ``TLSError`` if a name is invalid or OpenSSL fails.
    package init(days: Int = 30, names: [String] = [], hasAlternativeNames: Bool = true) throws {
        guard let key = clibssl_make_p256_key() else { throw TLSError("cannot generate a private key") }
        defer { EVP_PKEY_free(key) }
        guard let certificate = X509_new() else { throw TLSError("out of memory") }
        defer { X509_free(certificate) }
        X509_set_version(certificate, 2)
        ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), UInt64.random(in: 1...UInt64(Int64.max)))
        // Valid from yesterday on, because the clocks of two machines may differ.
        X509_gmtime_adj(X509_getm_notBefore(certificate), -86_400)
        X509_gmtime_adj(X509_getm_notAfter(certificate), days * 86_400)
        X509_set_pubkey(certificate, key)
        let name = X509_get_subject_name(certificate)
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, "localhost", -1, -1, 0)
        X509_set_issuer_name(certificate, name)
        try Self.add(NID_basic_constraints, "critical,CA:TRUE", to: certificate)
        try Self.add(NID_ext_key_usage, "serverAuth", to: certificate)
        if hasAlternativeNames {
            var all: [String] = []
            for name in try (Self.localNames + names).map(Self.alternativeName) where !all.contains(name) {
                all.append(name)
            }
            try Self.add(NID_subject_alt_name, all.joined(separator: ","), to: certificate)
        }
        guard X509_sign(certificate, key, EVP_sha256()) > 0 else { throw TLSError("cannot sign the certificate") }
        self.certificate = try Self.pem { PEM_write_bio_X509($0, certificate) }
        privateKey = try Self.pem { PEM_write_bio_PrivateKey($0, key, nil, nil, 0, nil, nil) }
    }

    /// Returns a host name or a numeric address in OpenSSL's notation.
    private static func alternativeName(_ name: String) throws -> String {
        guard SocketAddress(name) == nil else { return "IP:\(name)" }
        // Any other character could begin another part of the extension.
        let isName = name.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-" || $0 == ".") }
        guard isName, !name.isEmpty else { throw TLSError("\(name) is no host name") }
        return "DNS:\(name)"
    }

    private static func add(_ extensionID: Int32, _ value: String, to certificate: OpaquePointer) throws {
        guard let part = X509V3_EXT_conf_nid(nil, nil, extensionID, value) else {
            throw TLSError("OpenSSL rejected the certificate extension \(value)")
        }
        defer { X509_EXTENSION_free(part) }
        X509_add_ext(certificate, part, -1)
    }

    private static func pem(_ write: (OpaquePointer) -> Int32) throws -> [UInt8] {
        guard let bio = BIO_new(BIO_s_mem()) else { throw TLSError("out of memory") }
        defer { BIO_free(bio) }
        guard write(bio) == 1 else { throw TLSError("cannot write PEM") }
        var data: UnsafeMutablePointer<CChar>?
        let count = clibssl_memory(bio, &data)
        return data.map { [UInt8](UnsafeRawBufferPointer(start: $0, count: count)) } ?? []
    }
}
