internal import HTTPClient

extension HTTPClientError {
    /// What happened, and what to do about it.
    ///
    /// - Parameter certificate: What to do about a certificate that is not trusted.
    func remedy(certificate: String) -> String {
        switch code {
        case .cannotResolve:
            "\(message): mend the address, or the name servers of this machine"
        case .cannotConnect, .timedOut:
            "\(message): let this machine reach it; no proxy is used, whatever the environment says"
        case .connectionLost:
            "\(message): it hangs up, or something on the way; ask again, then look at firewalls"
        case .tls:
            "\(message): \(certificate)"
        case .badResponse, .responseTooLarge:
            "\(message): something else answers there; mend the address"
        case .invalidRequest, .invalidSettings, .canceled, .expired, .overloaded, .shutDown, .internalFailure:
            message
        }
    }
}

extension Duration {
    /// `85 ms`, `0.4 ms`.
    var inMilliseconds: String {
        let tenths = Int(self / .microseconds(100))
        return tenths < 100 ? "\(tenths / 10).\(tenths % 10) ms" : "\(tenths / 10) ms"
    }
}
