import HTTPTypes
import Schemas

/// Lists a user's shipping addresses: the default one first, then by the time of the last change, newest first. (Kakao,
/// "Kakao Login: REST API", "Retrieve shipping address".)
///
/// Without the user's consent, the answer has `shipping_addresses_needs_agreement` and no list. Errors -3 and -5 mean that
/// the app has no permission.
package struct RetrieveShippingAddresses: KakaoCall {
    /// The only address to return. Excludes the other parameters.
    package var addressID: Int64?
    /// The end of the previous page: addresses that were last changed before this time in Unix seconds; 0 for the first page. Kakao
    /// documents an integer; its SDK for Flutter also sends `1600000000.123`, which is for Kakao to accept.
    package var fromUpdatedAt: String?
    /// The number of addresses on a page, 2 or more. Kakao's default is 10.
    package var pageSize: Int64?

    package static let operation = KakaoOperation<Self>(
        "user_shipping_address",
        [.get],
        "/v1/user/shipping_address",
        .user,
        [.userToken, .adminKeyForUser],
        "Lists the user's shipping addresses.",
        parameters: Record(
            .optional(
                "address_id",
                \.addressID,
                .kakaoID,
                "The only address to return. Excludes `from_updated_at` and `page_size`."
            ),
            .optional(
                "from_updated_at",
                \.fromUpdatedAt,
                .decimalSeconds,
                "The `updated_at` of the last address of the previous page, in Unix seconds; 0 for the first page."
            ),
            .optional(
                "page_size",
                \.pageSize,
                Kind<Int64>.integer(2...Int64.max),
                "The number of addresses; 10 if absent."
            ),
            make: Self.init,
            check: { call throws(Record<Self>.InvalidMember) in
                guard call.addressID == nil || call.fromUpdatedAt == nil && call.pageSize == nil else {
                    throw Record<Self>.InvalidMember(
                        "address_id",
                        allowed: "absent if from_updated_at or page_size is given"
                    )
                }
            }
        ),
        answer: .json(
            Answer.record.kind("KakaoShippingAddresses"),
            example: Answer(userID: 123_456_789, needsAgreement: false, addresses: [.example])
        )
    )

    package struct Answer: Sendable {
        package let userID: Int64?
        /// Whether the user must agree before addresses are returned.
        package let needsAgreement: Bool?
        /// The addresses; `nil` if the user has not agreed.
        package let addresses: [ShippingAddress]?

        package init(userID: Int64?, needsAgreement: Bool?, addresses: [ShippingAddress]?) {
            self.userID = userID
            self.needsAgreement = needsAgreement
            self.addresses = addresses
        }

        fileprivate static let record = Record<Answer>(
            .optional("user_id", \.userID, .kakaoID, "The user."),
            .optional(
                "shipping_addresses_needs_agreement",
                \.needsAgreement,
                .boolean,
                "Whether the user must agree before addresses are returned."
            ),
            .optional(
                "shipping_addresses",
                \.addresses,
                ShippingAddress.record.kind("KakaoShippingAddress").array,
                "The addresses; absent if the user has not agreed."
            ),
            make: Answer.init
        )
    }
}

extension Kind where Value == String {
    /// A time in Unix seconds, as the caller wrote it.
    fileprivate static var decimalSeconds: Kind {
        Kind(
            text: .oneOf([.integer(0...Int64.max), .text(pattern: #"^(0|[1-9][0-9]{0,18})(\.[0-9]{1,9})?$"#)]),
            allowed: "a number from 0 on",
            parse: { text in
                let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
                guard let seconds = Int64(decimal: String(parts[0])), seconds >= 0 else { return nil }
                let hasFraction = parts.dropFirst().allSatisfy { fraction in
                    (1...9).contains(fraction.utf8.count) && fraction.utf8.allSatisfy { (0x30...0x39).contains($0) }
                }
                return hasFraction ? text : nil
            },
            format: \.self
        )
    }
}

extension ShippingAddress {
    fileprivate static let example = ShippingAddress(
        id: 17,
        name: "우리집",
        isDefault: true,
        updatedAt: 1_649_641_528,
        type: "NEW",
        baseAddress: "경기 성남시 분당구 판교역로 166",
        detailAddress: "1층",
        receiverName: "홍길동",
        receiverPhoneNumber1: "010-1234-5678",
        receiverPhoneNumber2: "",
        zoneNumber: "13529",
        zipCode: "463-400"
    )
}
