internal import HTTPServer
internal import HTTPTypes

/// How devices travel between systems: a device a line.
enum TransferFormat: String, CaseIterable, Sendable {
    /// A JSON object a line.
    case ndjson
    /// RFC 4180, with a header line.
    case csv

    var contentType: String {
        switch self {
        case .ndjson: "application/x-ndjson"
        case .csv: "text/csv"
        }
    }

    /// The format of a media type, without its parameters and in lower case.
    init?(contentType: String?) {
        guard let format = Self.allCases.first(where: { $0.contentType == contentType }) else { return nil }
        self = format
    }

    /// The format that a request asks for: by `?format=`, else by the first one that `Accept` names, else NDJSON.
    ///
    /// - Throws: ``Problem`` for a `format` that is none.
    init(askedFor request: Request) throws {
        if let format = try Parameters(request).optionalChoice("format", of: Self.self) {
            self = format
            return
        }
        let accepted = (request[.accept] ?? "").lowercased().split(separator: ",").lazy.compactMap { range in
            let type = range.split(separator: ";", omittingEmptySubsequences: false)[0].filter { $0 != " " }
            return Self(contentType: type)
        }
        self = accepted.first ?? .ndjson
    }
}
