import JSON
import Settings

/// The path of a member within an object, such as `alert.title`.
package struct MemberPath: Sendable, Equatable {
    private static let maximumNames = 8

    /// The names of the objects on the way, and the member's own.
    let names: [String]

    /// Returns `nil` for an invalid text.
    package init?(_ text: String) {
        let names = text.split(separator: ".", maxSplits: Self.maximumNames, omittingEmptySubsequences: false)
        guard names.count <= Self.maximumNames,
            names.allSatisfy({ (1...64).contains($0.utf8.count) && $0.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F } })
        else { return nil }
        self.names = names.map(String.init)
    }

    var text: String { names.joined(separator: ".") }

    /// The path of the object that has the member; `nil` if that is the object in which the path begins.
    var parent: MemberPath? { names.count > 1 ? MemberPath(Array(names.dropLast())) : nil }

    private init(_ names: [String]) { self.names = names }
}

extension JSONObject {
    /// The value of the member at a path; `nil` if there is none.
    subscript(path: MemberPath) -> JSONValue? {
        path.names.reduce(JSONValue.object(self) as JSONValue?) { value, name in value?[name] }
    }
}

extension SettingKind where Value == MemberPath {
    /// The path of a member.
    static var memberPath: SettingKind {
        SettingKind(
            "a path such as `title` or `alert.title`",
            problem: "must be the path of a member, its names separated by dots, such as title or alert.title.",
            parse: { MemberPath($0) },
            text: \.text
        )
    }
}
