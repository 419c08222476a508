import HTTPClient

extension HTTPClientError {
    /// Returns the error's message and its remedy.
    ///
    /// - Parameter certificate: The remedy for a certificate that is not trusted.
    func remedy(certificate: String) -> String {
        switch code {
        case .cannotResolve:
            "\(message): correct the address, or the name servers of this machine"
        case .cannotConnect, .timedOut:
            "\(message): allow this machine to connect to it, or set kakao.proxy_url for calls to Kakao; proxy settings in "
                + "the environment are ignored"
        case .proxy:
            "\(message): correct kakao.proxy_url, or let the proxy connect to this host and port"
        case .connectionLost:
            "\(message): the server or a firewall closed the connection; try again, then check the firewalls"
        case .tls:
            "\(message): \(certificate)"
        case .badResponse, .responseTooLarge:
            "\(message): the response is not from the expected server; correct the address"
        case .invalidRequest, .canceled, .expired, .overloaded, .shutDown, .uploadFailed,
            .internalFailure:
            message
        }
    }
}

extension Duration {
    /// The duration as text, such as `85 ms` or `0.4 ms`.
    var inMilliseconds: String {
        let tenths = Int(self / .microseconds(100))
        return tenths < 100 ? "\(tenths / 10).\(tenths % 10) ms" : "\(tenths / 10) ms"
    }
}
