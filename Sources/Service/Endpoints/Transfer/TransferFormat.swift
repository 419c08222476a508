/// A format of a file with one object a line, which a request chooses by a parameter or by `Accept`.
package protocol FileFormat: CaseIterable, Sendable {
    /// The media type in lower case, without parameters.
    var contentType: String { get }
}

extension FileFormat {
    /// Returns the format with a media type; `nil` for an unknown one.
    ///
    /// - Parameter contentType: The media type in lower case, without its parameters.
    package init?(contentType: String?) {
        guard let format = Self.allCases.first(where: { $0.contentType == contentType }) else { return nil }
        self = format
    }

    /// Returns the first known format in `Accept`; `nil` if there is none.
    package init?(accepted: String?) {
        let known = (accepted ?? "").lowercased().split(separator: ",").lazy.compactMap { range in
            let type = range.split(separator: ";", omittingEmptySubsequences: false)[0].filter { $0 != " " }
            return Self(contentType: type)
        }
        guard let format = known.first else { return nil }
        self = format
    }
}

/// A file format of many objects, with one object a line.
package enum TransferFormat: String, FileFormat {
    /// One JSON object a line.
    case ndjson
    /// CSV with a header line (RFC 4180).
    case csv

    package var contentType: String {
        switch self {
        case .ndjson: "application/x-ndjson"
        case .csv: "text/csv"
        }
    }
}
