import Endpoints

/// The format of an export of users of a push.
enum UserListFormat: String, FileFormat {
    /// A line for each user, with the cause (RFC 4180).
    case csv
    /// The id of a user on each line, as `putAudience` accepts them.
    case text

    var contentType: String {
        switch self {
        case .csv: "text/csv"
        case .text: "text/plain"
        }
    }

    /// The line before the first user.
    var header: [UInt8] {
        var bytes: [UInt8] = []
        if self == .csv { CSVLine.write(["user_id", "cause", "code", "message", "may_repeat"], to: &bytes) }
        return bytes
    }

    /// Appends a line for each user.
    func write(_ users: ExportedUserStore.Users, to bytes: inout [UInt8]) {
        var end: [UInt8] = [UInt8(ascii: "\n")]
        if self == .csv {
            end = [UInt8(ascii: ",")]
            // What follows the id is the same for all of them.
            let fields = [
                users.cause.rawValue, users.kakaoCode.map { String($0) } ?? "",
                CSVLine.withoutFormula(users.kakaoMessage ?? ""), users.mayRepeat ? "true" : "false",
            ]
            CSVLine.write(fields, to: &end)
        }
        bytes.reserveCapacity(bytes.count + users.ids.count * (20 + end.count))
        for id in users.ids {
            bytes += "\(id)".utf8
            bytes += end
        }
    }
}
