internal import CLibssl
internal import Glibc

// What the server's own certificate says of itself.
extension TLSContext {
    /// From when to when it is valid, in seconds since 1970; `nil` for dates that cannot be read.
    package var certificateValidity: Range<Int>? {
        guard let certificate = SSL_CTX_get0_certificate(pointer),
            let begin = Self.unixSeconds(X509_get0_notBefore(certificate)),
            let end = Self.unixSeconds(X509_get0_notAfter(certificate)), begin < end
        else { return nil }
        return begin..<end
    }

    /// Whether it is for this host: a name, or a numeric address.
    package func certificateNames(_ host: String) -> Bool {
        guard let certificate = SSL_CTX_get0_certificate(pointer) else { return false }
        return X509_check_host(certificate, host, host.utf8.count, 0, nil) == 1
            || X509_check_ip_asc(certificate, host, 0) == 1
    }

    private static func unixSeconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int? {
        var parts = tm()
        guard ASN1_TIME_to_tm(time, &parts) == 1 else { return nil }
        return timegm(&parts)
    }
}
