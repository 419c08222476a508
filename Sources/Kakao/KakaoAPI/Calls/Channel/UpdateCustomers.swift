import HTTPTypes
package import JSON
package import Schemas

/// How users of a customer file are named.
package enum CustomerType: String, CaseIterable, Sendable {
    /// By Kakao's id of a user of the app.
    case app
    /// By a phone number.
    case phone
}

/// A user of a customer file.
package struct Customer: Sendable {
    /// A user id or a phone number, as the ``CustomerType`` says.
    package let id: String
    /// The values of the file's fields: texts and numbers.
    package let field: JSONObject

    package init(id: String, field: JSONObject) {
        self.id = id
        self.field = field
    }

    /// The user id; `nil` for a phone number with other characters than digits.
    package var userID: Int64? { UserID.read(.string(id)) }

    /// The faults that reading reports quote nothing of the user, because it may contain a phone number.
    package static let kind = Kind<Customer>(
        .object([("id", Self.id.input, true), ("field", Kind<JSONObject>.fields.input, false)]),
        allowed: "an object with id and field, an object of texts and numbers",
        read: { value throws(InvalidValue) in
            guard let object = value.object else { throw InvalidValue() }
            // Kakao ignores other members, and stores nothing of such a user.
            guard object.members.allSatisfy({ $0.name == "id" || $0.name == "field" }) else {
                throw InvalidValue("A user has an unknown member. Allowed: id, field")
            }
            guard let id = object["id"] else { throw InvalidValue("A user has no id") }
            let field = try object["field"].map { value throws(InvalidValue) in try Kind<JSONObject>.fields.read(value)
            }
            return Customer(id: try Self.id.read(id), field: field ?? JSONObject())
        },
        write: { customer, json in
            json.object { json in
                json.member("id", customer.id)
                json.member("field", JSONValue.object(customer.field))
            }
        }
    )

    /// A user id or a phone number: digits, with signs that people write between those of a phone number.
    package static let id = Kind<String>(
        .text(pattern: "^[+]?[0-9][0-9 ()-]{0,24}$"),
        allowed: "a user id or a phone number",
        read: { value throws(InvalidValue) in
            let text = value.string ?? value.integer.map(String.init) ?? ""
            let octets = text.utf8
            guard (1...26).contains(octets.count),
                octets.allSatisfy({ (0x30...0x39).contains($0) || "+ ()-".utf8.contains($0) }),
                octets.contains(where: { (0x30...0x39).contains($0) })
            else { throw InvalidValue() }
            return text
        },
        write: { $1.value($0) },
        text: \.self
    )
}

/// Adds users to a customer file, or replaces their fields. (Kakao, "KakaoTalk Channel: REST API", "Add users to customer file".)
///
/// Only friends of the channel count as success.
package struct UpdateCustomers: KakaoCall {
    /// The most users of a call.
    package static let maximumUsers = 2000

    package let fileID: Int64
    /// The channel, as in its address.
    package let channelPublicID: String
    package let type: CustomerType
    /// 1 to ``maximumUsers`` users.
    package let users: [Customer]

    package init(fileID: Int64, channelPublicID: String, type: CustomerType, users: [Customer]) {
        self.fileID = fileID
        self.channelPublicID = channelPublicID
        self.type = type
        self.users = users
    }

    package static let operation = KakaoOperation<Self>(
        "channel_customers_update",
        [.post],
        "/v1/talkchannel/update/target_users",
        .talk,
        [.restAPIKey, .adminKey],
        isIdempotent: true,
        "Adds users to a customer file, or replaces their fields.",
        parameters: Record(
            .fileID(\.fileID),
            .channelPublicID(\.channelPublicID),
            .customerType(\.type),
            .required("users", \.users, Customer.kind.array(count: 1...maximumUsers), "The users, up to 2,000."),
            make: Self.init
        ),
        answer: .json(Answer.kind, example: Answer(fileID: 759, requestCount: 2, successCount: 2)),
        sendsJSON: true
    )

    package struct Answer: Sendable {
        package let fileID: Int64?
        /// The number of users of the request.
        package let requestCount: Int64?
        /// How many of them Kakao has accepted.
        package let successCount: Int64?

        package init(fileID: Int64?, requestCount: Int64?, successCount: Int64?) {
            self.fileID = fileID
            self.requestCount = requestCount
            self.successCount = successCount
        }

        static let kind = Record<Answer>(
            .optional("file_id", \.fileID, Kind<Int64>.integer(1...Int64.max), "The file."),
            .optional("request_count", \.requestCount, Kind<Int64>.integer(0...Int64.max), "The users of the request."),
            .optional("success_count", \.successCount, Kind<Int64>.integer(0...Int64.max), "Those that count."),
            make: Answer.init
        ).kind("KakaoCustomerCounts")
    }
}

/// A user to delete from a customer file. Kakao's documentation does not show its form: a text or an object.
package struct CustomerReference: Sendable {
    /// A user id or a phone number.
    package let id: String
    /// Whether Kakao gets an object with `id`, and not a text.
    package let isObject: Bool

    package init(id: String, isObject: Bool) {
        self.id = id
        self.isObject = isObject
    }

    fileprivate static let kind = Kind<CustomerReference>(
        .oneOf([Customer.id.input, .object([("id", Customer.id.input, true)])]),
        allowed: "user ids or phone numbers, or objects with id",
        read: { value throws(InvalidValue) in
            guard let object = value.object else {
                return CustomerReference(id: try Customer.id.read(value), isObject: false)
            }
            guard object.count == 1, let id = object["id"] else { throw InvalidValue() }
            return CustomerReference(id: try Customer.id.read(id), isObject: true)
        },
        write: { reference, json in
            guard reference.isObject else { return json.value(reference.id) }
            json.object { $0.member("id", reference.id) }
        }
    )
}

/// Deletes users from a customer file. (Kakao, "KakaoTalk Channel: REST API", "Delete users from customer file".)
///
/// Kakao's documentation does not show the response: the members of ``UpdateCustomers`` are read, if they are there.
package struct DeleteCustomers: KakaoCall {
    package typealias Answer = UpdateCustomers.Answer

    package let fileID: Int64
    /// The channel, as in its address.
    package let channelPublicID: String
    package let type: CustomerType
    /// 1 to ``UpdateCustomers/maximumUsers`` users.
    package let userIDs: [CustomerReference]

    package init(fileID: Int64, channelPublicID: String, type: CustomerType, userIDs: [CustomerReference]) {
        self.fileID = fileID
        self.channelPublicID = channelPublicID
        self.type = type
        self.userIDs = userIDs
    }

    package static let operation = KakaoOperation<Self>(
        "channel_customers_delete",
        [.post],
        "/v1/talkchannel/delete/target_users",
        .talk,
        [.restAPIKey, .adminKey],
        isIdempotent: true,
        "Deletes users from a customer file.",
        parameters: Record(
            .fileID(\.fileID),
            .channelPublicID(\.channelPublicID),
            .customerType(\.type),
            .required(
                "user_ids",
                \.userIDs,
                CustomerReference.kind.array(count: 1...UpdateCustomers.maximumUsers),
                "The users, up to 2,000: user ids or phone numbers, as texts or as objects with `id`."
            ),
            make: Self.init
        ),
        answer: .json(Answer.kind, example: Answer(fileID: 759, requestCount: 1, successCount: 1)),
        sendsJSON: true
    )
}

extension RecordMember where Value == Int64 {
    /// The file of a call about its users.
    fileprivate static func fileID(_ get: @escaping @Sendable (Whole) -> Int64) -> RecordMember {
        .required("file_id", get, Kind<Int64>.integer(1...Int64.max), "The file.")
    }
}

extension RecordMember where Value == CustomerType {
    /// How a call names the users of a file.
    fileprivate static func customerType(_ get: @escaping @Sendable (Whole) -> CustomerType) -> RecordMember {
        .required("user_type", get, .choice, "How the users are named: `app` by user ids, `phone` by phone numbers.")
    }
}

extension Kind where Value == JSONObject {
    private static let allowedFields =
        "texts of up to 200 characters, and numbers of up to 40 without an exponent, with names of 1 to \(CreateCustomerFile.maximumNameLength)"

    /// The fields of a user of a customer file.
    fileprivate static let fields = Kind<JSONObject>(
        .map(
            of: .oneOf([.text(length: 0...200, pattern: Text.pattern), .number]),
            count: CreateCustomerFile.maximumFields,
            names: 1...CreateCustomerFile.maximumNameLength
        ),
        allowed: "an object of at most \(CreateCustomerFile.maximumFields) \(allowedFields)",
        read: { value throws(InvalidValue) in
            guard let object = value.object, object.count <= CreateCustomerFile.maximumFields else {
                throw InvalidValue()
            }
            for (name, value) in object.members {
                let isValid =
                    switch value {
                    // Without an exponent, with which few characters can have a hundred thousand digits in PostgreSQL.
                    case .number(let number): number.text.utf8.count <= 40 && !number.text.lowercased().contains("e")
                    case .string(let text): Text.isValid(text, 0...200)
                    case .null, .bool, .array, .object: false
                    }
                guard isValid, Text.isValid(name, 1...CreateCustomerFile.maximumNameLength) else {
                    throw InvalidValue("A field is invalid. Allowed: \(allowedFields)")
                }
            }
            return object
        },
        write: { $1.value(JSONValue.object($0)) }
    )
}
