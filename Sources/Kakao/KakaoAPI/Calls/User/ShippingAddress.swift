package import Schemas

/// A shipping address of a Kakao Account.
package struct ShippingAddress: Sendable, Equatable {
    /// The id of the address.
    package let id: Int64
    /// The name that the user gave to the address.
    package let name: String?
    /// Whether it is the default address.
    package let isDefault: Bool
    /// The time of the last change in Unix seconds.
    package let updatedAt: Int64?
    /// `NEW` for an address by road name, `OLD` for one by lot number.
    package let type: String?
    /// The part that follows from the postal code.
    package let baseAddress: String?
    /// The part that the user adds.
    package let detailAddress: String?
    /// The name of the receiver.
    package let receiverName: String?
    /// A phone number of the receiver.
    package let receiverPhoneNumber1: String?
    /// Another phone number; may be empty.
    package let receiverPhoneNumber2: String?
    /// The postal code of 5 digits, of an address by road name.
    package let zoneNumber: String?
    /// The former postal code of 6 digits, of an address by lot number.
    package let zipCode: String?

    package static let record = Record<ShippingAddress>(
        .required("id", \.id, .kakaoID, "The id of the address."),
        .optional("name", \.name, .text, "The name that the user gave to the address."),
        .required("is_default", \.isDefault, .boolean, "Whether it is the default address."),
        .optional("updated_at", \.updatedAt, .unixSeconds, "The time of the last change in Unix seconds."),
        .optional("type", \.type, .text, "`NEW` for an address by road name, `OLD` for one by lot number."),
        .optional("base_address", \.baseAddress, .text, "The part that follows from the postal code."),
        .optional("detail_address", \.detailAddress, .text, "The part that the user adds."),
        .optional("receiver_name", \.receiverName, .text, "The name of the receiver."),
        .optional("receiver_phone_number1", \.receiverPhoneNumber1, .text, "A phone number of the receiver."),
        .optional("receiver_phone_number2", \.receiverPhoneNumber2, .text, "Another phone number; may be empty."),
        .optional("zone_number", \.zoneNumber, .text, "The postal code of 5 digits, of an address by road name."),
        .optional("zip_code", \.zipCode, .text, "The former postal code of 6 digits, of an address by lot number."),
        make: ShippingAddress.init
    )
}

extension Kind where Value == Int64 {
    /// A time in Unix seconds.
    static var unixSeconds: Kind { .integer(0...Int64.max) }
}
