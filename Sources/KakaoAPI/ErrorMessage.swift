/// Kakao's `msg`, made fit for a log and for an answer.
///
/// It can quote what was sent. The documents' own example is `Invalid Kpusher Param. ( appName=…, uid=…, did=…,
/// pushType=apns, pushToken=… )`.
enum ErrorMessage {
    /// Longer than any that is documented, short enough for a line of a log.
    private static let maximumCharacters = 200
    /// Longer texts are cut before they are looked at.
    private static let maximumScannedCharacters = 4096

    /// The message without secrets and line ends, cut to ``maximumCharacters``.
    static func scrubbed(_ message: String) -> String {
        var text = String(message.prefix(maximumScannedCharacters))
        let named = /(?i)((?:token|\bdid|device_?id|key|authorization)["']?\s*[=:]\s*["']?)[^\s,;&)}\]"']+/
        text = text.replacing(named) { "\($0.1)***" }
        let credential = /(?i)(\b(?:KakaoAK|Bearer)\s+)\S+/
        text = text.replacing(credential) { "\($0.1)***" }
        // Tokens of APNs and FCM, by their look: long, and with a digit, which a long word has not. A user's id is
        // shorter.
        let tokenLike = /[A-Za-z0-9_:\-]{20,}/
        text = text.replacing(tokenLike) { $0.0.contains(where: \.isNumber) ? "***" : String($0.0) }
        return String(
            String.UnicodeScalarView(text.unicodeScalars.map { $0.isControl ? " " : $0 }).prefix(maximumCharacters)
        )
    }
}

extension Unicode.Scalar {
    /// Whether it could begin a new line in a log, or move a terminal's cursor.
    fileprivate var isControl: Bool {
        switch properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator, .format: true
        default: false
        }
    }
}
