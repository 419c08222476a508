internal import CLibssl

/// A certificate or key that cannot be used, or a peer that does not speak TLS as it should.
package struct TLSError: Error, Sendable, CustomStringConvertible {
    /// What failed, and OpenSSL's words for why.
    package let description: String

    init(_ what: String) {
        var reasons: [String] = []
        // OpenSSL keeps one queue of errors a thread: taking all of them leaves it clean for the next connection.
        while true {
            let code = ERR_get_error()
            guard code != 0 else { break }
            if let reason = ERR_reason_error_string(code) { reasons.append(String(cString: reason)) }
        }
        description = reasons.isEmpty ? what : "\(what): \(reasons.joined(separator: ", "))"
    }
}
