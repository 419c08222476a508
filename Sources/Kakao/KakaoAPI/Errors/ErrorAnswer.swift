package import JSON

/// Kakao's answer to a call that it refuses, as a caller of this server gets it: to the letter, apart from secrets.
///
/// ``KakaoError/Kind`` has the text for a log, in which everything that looks like a secret is masked.
package struct ErrorAnswer: Sendable {
    /// Kakao's `msg`, or `error_description` of the authorization server; empty if there is none.
    package let text: String
    /// The members that Kakao adds to some errors, such as `api_type`, `allowed_scopes` and `receiver_ids`, within ``Limits``.
    package let members: JSONObject

    /// An answer without words.
    package static let none = ErrorAnswer(text: "")

    package init(text: String, members: JSONObject = JSONObject()) {
        self.text = text
        self.members = members
    }

    /// The limits of what is passed on of an answer. Kakao's documented errors have a tenth of it.
    private enum Limits {
        static let textScalars = 4096
        /// The bytes of all members together, and of the name of one.
        static let memberBytes = 4096
        static let nameBytes = 100
        static let members = 32
        /// The levels of arrays and objects within a member.
        static let depth = 4
    }

    /// - Parameters:
    ///   - textName: The name of the member with the text.
    ///   - otherNames: The names of the other members that ``KakaoError`` has as properties.
    ///   - secrets: The texts that are masked wherever they occur.
    init(_ body: JSONObject, textIn textName: String, without otherNames: [String], secrets: [String]) {
        let mask = ValueMask(secrets)
        let text = mask.masked(body[textName]?.string ?? "")
        var members = JSONObject()
        var bytesLeft = Limits.memberBytes
        for (name, value) in body.members where name != textName && !otherNames.contains(name) {
            guard members.count < Limits.members, name.utf8.count <= Limits.nameBytes,
                let value = mask.masked(value, depth: Limits.depth)
            else { continue }
            let bytes = name.utf8.count + value.bytes().count
            guard bytes <= bytesLeft else { continue }
            bytesLeft -= bytes
            members[mask.masked(name)] = value
        }
        self.init(text: String(text.unicodeScalars.prefix(Limits.textScalars)), members: members)
    }
}

extension ErrorAnswer: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Nothing of the answer, which may repeat a request: logs have ``KakaoError/kind``.
    package var description: String { "ErrorAnswer(***)" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// Replaces known secrets with `***`, whatever stands around them.
private struct ValueMask {
    /// The length from which a text is masked, in bytes. Keys, tokens and codes are longer; a shorter one would occur in ordinary words.
    private static let shortestSecret = 8

    private let secrets: [String]

    init(_ secrets: [String]) {
        self.secrets = secrets.filter { $0.utf8.count >= Self.shortestSecret }
    }

    func masked(_ text: String) -> String {
        secrets.reduce(text) { $0.replacing($1, with: "***") }
    }

    /// Returns a value with masked texts; `nil` for one that is nested too deeply.
    func masked(_ value: JSONValue, depth: Int) -> JSONValue? {
        switch value {
        case .null, .bool, .number: return value
        case .string(let text): return .string(masked(text))
        case .array(let elements):
            guard depth > 0 else { return nil }
            let masked = elements.compactMap { self.masked($0, depth: depth - 1) }
            return masked.count == elements.count ? .array(masked) : nil
        case .object(let object):
            guard depth > 0 else { return nil }
            var masked = JSONObject()
            for (name, value) in object.members {
                guard let value = self.masked(value, depth: depth - 1) else { return nil }
                masked[self.masked(name)] = value
            }
            return .object(masked)
        }
    }
}
