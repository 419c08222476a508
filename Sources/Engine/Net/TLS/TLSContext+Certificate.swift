import CLibssl
import Glibc

// Properties of the server's own certificate.
extension TLSContext {
    /// The certificate's validity period, in seconds since 1970. `nil` if its dates cannot be parsed.
    package var certificateValidity: Range<Int>? {
        guard let certificate = SSL_CTX_get0_certificate(pointer),
            let begin = Self.unixSeconds(X509_get0_notBefore(certificate)),
            let end = Self.unixSeconds(X509_get0_notAfter(certificate)), begin < end
        else { return nil }
        return begin..<end
    }

    /// Returns whether the certificate is valid for this host, a name or a numeric address.
    package func certificateIsValid(for host: String) -> Bool {
        guard let certificate = SSL_CTX_get0_certificate(pointer) else { return false }
        // As clients check it: not by its common name.
        let flags = UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT)
        return X509_check_host(certificate, host, host.utf8.count, flags, nil) == 1
            || X509_check_ip_asc(certificate, host, 0) == 1
    }

    private static func unixSeconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int? {
        var parts = tm()
        guard ASN1_TIME_to_tm(time, &parts) == 1 else { return nil }
        return timegm(&parts)
    }
}
