import Endpoints
import FoundationEssentials
import JSON
import Locking
import Settings

/// The member of `custom_field` in which phones receive the id of a push, so that the app can report that it was opened:
/// `pushes.id_field`.
///
/// It is added to the message that is sent. The stored message stays as the operator wrote it.
struct PushIDMember: Sendable, Equatable {
    private let name: String
    private let id: UUID

    /// - Parameter name: `nil` for no member.
    init?(_ name: PushIDField?, id: UUID) {
        guard let name else { return nil }
        self.name = name.text
        self.id = id
    }

    /// Returns the part of a message for one platform with the id in its `custom_field`, which is created if it is absent.
    ///
    /// A member of the same name is not overwritten: the setting may be newer than the push. Nor is a `custom_field` that is no object.
    func added(to part: JSONObject) -> JSONObject {
        let existing = part.has("custom_field") ? part["custom_field"]?.object : JSONObject()
        guard var field = existing, field[name] == nil else { return part }
        field[name] = .string(id.lowercased)
        var part = part
        part["custom_field"] = .object(field)
        return part
    }
}

/// The name of a member of `custom_field`.
package struct PushIDField: Sendable, Equatable {
    /// The names that Apple has in a notification, and Google in the data of a message ("About FCM messages"), as far as they can be told
    /// from others.
    private static let reservedNames: Set = ["aps", "from", "message_type"]
    private static let reservedPrefixes = ["google", "gcm"]

    let text: String

    /// Returns `nil` for an invalid text.
    package init?(_ text: String) {
        guard (1...64).contains(text.utf8.count), text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }),
            !Self.reservedNames.contains(text), !Self.reservedPrefixes.contains(where: { text.hasPrefix($0) })
        else { return nil }
        self.text = text
    }
}

extension SettingKind where Value == PushIDField {
    /// The name of a member of `custom_field`.
    static var pushIDField: SettingKind {
        SettingKind(
            "a name such as `push_id`",
            problem:
                "must be a name of up to 64 ASCII characters without spaces that Apple and Google do not reserve, such as push_id.",
            parse: { PushIDField($0) },
            text: \.text
        )
    }
}

extension Locked<PushSettings> {
    /// The name of the member with the push's id; `nil` for none.
    var idField: PushIDField? { withLock { $0.idField } }
}
