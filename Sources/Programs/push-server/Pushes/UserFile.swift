import Pushes

/// The users of a file with one id per line. Pure.
enum UserFile: Equatable {
    /// The ids of at most ``PushAudience/maximumUsers`` users, which a request may name.
    case few([Int64])
    /// More users, which have to be uploaded as an audience, with the number of their lines.
    case many(lines: Int)

    /// Reads a file of user ids.
    ///
    /// - Throws: ``CommandFailure`` with the first invalid lines, or if the file has no ids.
    init(_ bytes: [UInt8]) throws {
        var lines = UserIDLines()
        var ids: [Int64] = []
        let append = { (id: Int64) in ids.append(id) }
        lines.read(bytes, append)
        lines.end(append)
        guard lines.badLines.isEmpty else {
            let numbers = lines.badLines.map(String.init).joined(separator: ", ")
            throw CommandFailure.ofArguments(
                "The first invalid lines: \(numbers). Each line must be \(UserIDLines.allowed)."
            )
        }
        guard !ids.isEmpty else { throw CommandFailure.ofArguments("The file of users contains no user ids.") }
        self = ids.count > PushAudience.maximumUsers ? .many(lines: ids.count) : .few(ids)
    }
}

/// The name of the audience as which a file of users is uploaded for a single push, and which is deleted once the push has copied
/// its users. The push keeps the name, which therefore says what the audience was. Pure.
struct FileAudienceName: Equatable {
    /// The number of user ids in the file.
    let lines: Int

    /// Returns the name: `file-10500-KEY`.
    ///
    /// - Parameter idempotencyKey: The key of the request, so that a retried request is identical.
    func text(idempotencyKey: String) -> String { "file-\(lines)-\(idempotencyKey)" }

    init(lines: Int) {
        self.lines = lines
    }

    /// Reads the name of an audience. Returns `nil` for one that an operator has chosen.
    init?(_ name: String) {
        guard let match = name.wholeMatch(of: /file-([1-9][0-9]{4,8})-.+/), let lines = Int(match.output.1) else {
            return nil
        }
        self.init(lines: lines)
    }

    /// What the audience was.
    var description: String { "a file of \(Text.grouped(Int64(lines))) lines (--users-file)" }
}
