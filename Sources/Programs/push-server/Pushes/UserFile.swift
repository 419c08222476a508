import Pushes

/// The users of a file with one id per line. Pure.
enum UserFile: Equatable {
    /// The ids of at most ``PushAudience/maximumUsers`` users, which a request may name.
    case few([Int64])
    /// More users, which have to be uploaded as an audience.
    case many

    /// Reads a file of user ids.
    ///
    /// - Throws: ``CommandFailure`` with the first invalid lines, or if the file has no ids.
    init(_ bytes: [UInt8]) throws {
        var lines = UserIDLines()
        var ids: [Int64] = []
        var isMany = false
        let append: (Int64) -> Void = { id in
            if ids.count < PushAudience.maximumUsers { ids.append(id) } else { isMany = true }
        }
        lines.read(bytes, append)
        lines.end(append)
        guard lines.badLines.isEmpty else {
            let numbers = lines.badLines.map(String.init).joined(separator: ", ")
            throw CommandFailure("The first invalid lines: \(numbers). Each line must be \(UserIDLines.allowed).")
        }
        guard !ids.isEmpty else { throw CommandFailure("The file of users contains no user ids.") }
        self = isMany ? .many : .few(ids)
    }
}
