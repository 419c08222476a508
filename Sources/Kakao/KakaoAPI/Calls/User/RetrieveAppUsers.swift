import HTTPTypes
import JSON
import Schemas

/// Returns several users of the app. (Kakao, "Kakao Login: REST API", "Retrieve information of multiple users".)
///
/// Kakao's documentation shows an array and describes an object with `elements`: both are read.
package struct RetrieveAppUsers: KakaoCall {
    package typealias Answer = [RetrieveUser.Answer]

    /// The maximum number of users in a call with ``propertyKeys``.
    package static let maximumUsersWithKeys = 20

    /// 1 to 100 users; with ``propertyKeys`` at most ``maximumUsersWithKeys``.
    package let targetIDs: [Int64]
    /// `user_id`, the only kind of id.
    package var targetIDType = "user_id"
    /// The members to return: see ``RetrieveUser/propertyKeys``.
    package var propertyKeys: [String]?

    package static let operation = KakaoOperation<Self>(
        "app_users",
        [.get],
        "/v2/app/users",
        .user,
        [.adminKey],
        "Returns several users of the app.",
        parameters: Record(
            .required(
                "target_ids",
                \.targetIDs,
                Kind<Int64>.kakaoID.array(count: 1...100),
                "The users: up to 100, with `property_keys` up to 20."
            ),
            .required("target_id_type", \.targetIDType, .text(oneOf: ["user_id"]), "The kind of the ids."),
            .propertyKeys(\.propertyKeys),
            make: Self.init,
            check: { call throws(Record<Self>.InvalidMember) in
                guard call.propertyKeys == nil || call.targetIDs.count <= maximumUsersWithKeys else {
                    throw Record<Self>.InvalidMember(
                        "target_ids",
                        allowed: "an array of 1 to \(maximumUsersWithKeys) elements if property_keys is given"
                    )
                }
            }
        ),
        answer: .json(.users, example: [.example])
    )
}

extension Kind where Value == RetrieveAppUsers.Answer {
    /// An array of users, or an object that has it as `elements`.
    fileprivate static var users: Kind {
        let array = RetrieveUser.Answer.kind.array
        return Kind(
            .oneOf([array.input, .object([("elements", array.input, true)], allowingOthers: true)]),
            allowed: array.allowed,
            read: { value throws(InvalidValue) in try array.read(value["elements"] ?? value) },
            write: array.write
        )
    }
}
