extension Template {
    /// A text that is not a template.
    package struct Unreadable: Error {
        /// The place and the problem.
        package let reason: String
    }

    /// Reads a template whose text the linter has checked, since this parser is more lenient than Kakao's.
    ///
    /// - Parameter findings: The linter's findings in `json`.
    package init(json: [UInt8], _ findings: [Finding]) throws(Unreadable) {
        if let finding = findings.first(where: \.preventsReading) { throw Unreadable(reason: finding.message) }
        do {
            try self.init(json: String(decoding: json, as: UTF8.self))
        } catch {
            throw Unreadable(reason: Self.reason(error))
        }
    }

    /// Returns why a template could not be read, and where.
    private static func reason(_ error: any Error) -> String {
        guard let error = error as? DecodingError else { return "The text is not JSON." }
        let (context, problem): (DecodingError.Context, String)
        switch error {
        case .keyNotFound(let key, let place): (context, problem) = (place, "\(key.stringValue) is missing")
        case .valueNotFound(_, let place): (context, problem) = (place, "the value is null")
        case .typeMismatch(_, let place):
            (context, problem) = (place, "the value has another type than Kakao documents")
        case .dataCorrupted(let place): (context, problem) = (place, "the value is not one that Kakao documents")
        @unknown default: return "The template cannot be read."
        }
        let path = context.codingPath.map { key in key.intValue.map { "[\($0)]" } ?? ".\(key.stringValue)" }
        return "$\(path.joined()): \(problem)."
    }
}
