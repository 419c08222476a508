package import JSON
package import Schemas

// The parameters that calls with a message have in common.

/// The limit of a template, and of the arguments of one.
package enum TemplateSize {
    /// The length as JSON text, in bytes: Kakao's SDKs refuse messages of this size, with everything that travels with them.
    package static let maximumBytes = 10_240
}

extension Kind where Value == JSONObject {
    /// A template or its arguments. The size is checked before anything is read.
    package static var template: Kind { Kind.object.limited(toBytes: TemplateSize.maximumBytes) }
}

extension RecordMember where Value == JSONObject {
    /// A default template.
    static func templateObject(_ get: @escaping @Sendable (Whole) -> JSONObject) -> RecordMember {
        .required("template_object", get, .template, "The template: at most 10,240 bytes.")
    }
}

extension RecordMember where Value == Int64 {
    /// The id of a custom template.
    static func templateID(_ get: @escaping @Sendable (Whole) -> Int64) -> RecordMember {
        .required("template_id", get, Kind<Int64>.integer(1...Int64.max), "The template's id.")
    }
}

extension RecordMember where Value == Int64? {
    /// The id of a custom template for a scraped page.
    static func templateID(_ get: @escaping @Sendable (Whole) -> Int64?) -> RecordMember {
        .optional("template_id", get, Kind<Int64>.integer(1...Int64.max), "The custom template to use.")
    }
}

extension RecordMember where Value == JSONObject? {
    /// The arguments of a custom template.
    static func templateArgs(_ get: @escaping @Sendable (Whole) -> JSONObject?) -> RecordMember {
        .optional(
            "template_args",
            get,
            .template,
            "Texts by the names of the template's arguments: at most 10,240 bytes."
        )
    }
}

extension RecordMember where Value == String {
    /// The address of a page that Kakao scrapes.
    static func requestURL(_ get: @escaping @Sendable (Whole) -> String) -> RecordMember {
        .required("request_url", get, .text(1...2048), "The page, on a registered domain.")
    }
}

extension RecordMember where Value == [String] {
    /// The receivers of a message to friends.
    static func receivers(_ get: @escaping @Sendable (Whole) -> [String]) -> RecordMember {
        .required(
            "receiver_uuids",
            get,
            .texts(count: 1...FriendMessageAnswer.maximumReceivers, length: 1...64),
            "The `uuid` of each receiver, up to \(FriendMessageAnswer.maximumReceivers)."
        )
    }
}

extension RecordMember where Value == String? {
    /// The kind of the receivers' ids, which Kakao's SDK for JavaScript sends.
    static func receiverIDType(_ get: @escaping @Sendable (Whole) -> String?) -> RecordMember {
        .optional("receiver_id_type", get, .text(oneOf: ["uuid"]), "The kind of the receivers' ids.")
    }
}
