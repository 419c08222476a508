import CLibssl

/// An unusable certificate or key, or another failure of OpenSSL.
package struct TLSError: Error, Sendable, CustomStringConvertible {
    /// The failed operation and OpenSSL's reasons.
    package let description: String

    package init(_ what: String) {
        var reasons: [String] = []
        // OpenSSL has one error queue per thread. Reading all of it leaves it empty for the next connection.
        while true {
            let code = ERR_get_error()
            guard code != 0 else { break }
            if let reason = ERR_reason_error_string(code) { reasons.append(String(cString: reason)) }
        }
        description = reasons.isEmpty ? what : "\(what): \(reasons.joined(separator: ", "))"
    }
}
