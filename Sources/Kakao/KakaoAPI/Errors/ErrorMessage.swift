/// Kakao's `msg`, made safe for a log and a response.
///
/// The message can quote the request. Kakao's own documented example is `Invalid Kpusher Param. ( appName=…, uid=…,
/// did=…, pushType=apns, pushToken=… )`.
enum ErrorMessage {
    /// The maximum length: longer than any documented message, short enough for a log line.
    private static let maximumCharacters = 200
    /// The maximum length that is scanned for texts that look like secrets: more than the result has, and little enough for an
    /// event loop. The rest is dropped before, but after the known secrets were masked.
    private static let maximumScannedScalars = 1024

    /// Returns the message without secrets and line ends, cut to `maximumCharacters`.
    ///
    /// - Parameters:
    ///   - secrets: Texts that are masked wherever they occur.
    ///   - hidesJSON: Whether the request has personal data in a JSON body: what the message may quote of it is masked, from the first
    ///     sign of JSON on, and numbers that may be phone numbers or user ids.
    static func scrubbed(
        _ message: String,
        of secrets: [String] = [],
        hidesJSON: Bool = false,
        maximumCharacters: Int = maximumCharacters
    ) -> String {
        var text = message
        for secret in secrets where !secret.isEmpty { text = text.replacing(secret, with: "***") }
        text = String(text.unicodeScalars.prefix(maximumScannedScalars))
        if hidesJSON {
            if let start = text.firstIndex(where: { "{[\"".contains($0) }) { text = "\(text[..<start])***" }
            text = text.replacing(/\d[\d \-()+]{5,}\d/, with: "***")
        }
        let named =
            /(?i)((?:token|\bdid|device_?id|key|authorization|\bcode|secret|verifier)["']?\s*[=:]\s*["']?)[^\s,;&)}\]"']+/
        text = text.replacing(named) { "\($0.1)***" }
        let credential = /(?i)(\b(?:KakaoAK|Bearer)\s+)\S+/
        text = text.replacing(credential) { "\($0.1)***" }
        // APNs and FCM tokens are recognized by their form: long, with a digit, unlike a long word. A user id is
        // shorter.
        let tokenLike = /[A-Za-z0-9_:\-]{20,}/
        text = text.replacing(tokenLike) { $0.0.contains(where: \.isNumber) ? "***" : String($0.0) }
        return String(
            String.UnicodeScalarView(text.unicodeScalars.map { $0.isControl ? " " : $0 }).prefix(maximumCharacters)
        )
    }
}

extension Unicode.Scalar {
    /// Whether the scalar could start a new line in a log or move a terminal's cursor.
    fileprivate var isControl: Bool {
        switch properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator, .format: true
        default: false
        }
    }
}
