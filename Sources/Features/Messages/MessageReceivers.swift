import JSON
import Schemas

/// How a request names the receivers of a message.
enum Addressing: String, Sendable {
    /// The sender, in the chat with oneself.
    case me
    /// Friends of the sender, by the uuids of Kakao's friends list.
    case friends
    /// Friends of the sender, by their user ids.
    case users
}

/// The receivers of a message.
enum MessageReceivers: Sendable {
    /// The maximum number of receivers of one message.
    static let maximum = 10_000

    case me
    case friends([String])
    case users([Int64])

    var addressing: Addressing {
        switch self {
        case .me: .me
        case .friends: .friends
        case .users: .users
        }
    }

    var count: Int {
        switch self {
        case .me: 1
        case .friends(let uuids): uuids.count
        case .users(let ids): ids.count
        }
    }
}

extension Kind where Value == MessageReceivers {
    /// The receivers: `"me"`, or an object with one member.
    static var messageReceivers: Kind {
        let count = 1...MessageReceivers.maximum
        let uuids = Kind<[String]>.texts(count: count, length: 1...64)
        let users = Kind<[Int64]>.userIDs(count: count)
        let schema = Schema.oneOf([
            .constant("me"), Schema.object([("friends", uuids.input, true)]).named("FriendReceivers"),
            Schema.object([("users", users.input, true)]).named("UserReceivers"),
        ])
        let allowed = """
            "me", {"friends":[…]} (1 to \(count.upperBound) uuids of the sender's friends list), or {"users":[…]} (as many user ids), \
            each receiver once
            """
        return .input(schema.named("MessageReceivers"), allowed: allowed) { value throws(InvalidValue) in
            if value.string == "me" { return .me }
            guard let object = try value.structured().object, object.count == 1, let member = object.members.first
            else { throw InvalidValue() }
            switch member.name {
            case "friends":
                let uuids = try uuids.read(member.value)
                guard Set(uuids).count == uuids.count else { throw InvalidValue() }
                return .friends(uuids)
            case "users":
                let users = try users.read(member.value)
                guard Set(users).count == users.count else { throw InvalidValue() }
                return .users(users)
            default: throw InvalidValue()
            }
        }
    }
}
