import HTTPTypes
package import JSON
import Schemas

/// Lists the addresses of Kakao's servers. (Kakao, "Reference: Utility API", "Retrieve Kakao IP list".)
///
/// Kakao adds addresses without the app doing anything.
package struct RetrieveAddresses: KakaoCall {
    /// The direction of connections, as seen from the app's server.
    package enum Direction: String, CaseIterable, Sendable {
        /// Kakao connects to the app's server.
        case inbound
        /// The app's server connects to Kakao.
        case outbound
    }

    /// The addresses to return; all if `nil`.
    package var direction: Direction?

    package init(direction: Direction? = nil) {
        self.direction = direction
    }

    package static let operation = KakaoOperation<Self>(
        "system_ips",
        [.get],
        "/v1/system/ips",
        .system,
        [.adminKey, .appKey],
        "Lists the addresses of Kakao's servers.",
        parameters: Record(
            .optional("rule_type", \.direction, .choice, "The addresses to return; all if it is absent."),
            make: Self.init
        ),
        answer: .json(
            Answer.record.kind("KakaoAddresses"),
            example: Answer(
                inbound: [
                    entry("callback", ["203.0.113.0/28", "2001:db8:1::/64"]), entry("scrap", ["203.0.113.64/28"]),
                ],
                outbound: [entry("https://kapi.kakao.com", ["203.0.113.128/28"])],
                updatedDate: "2026-01-26"
            )
        )
    )

    /// Returns an entry of the lists, as Kakao documents it.
    ///
    /// - Parameters:
    ///   - service: `callback` or `scrap` of inbound connections, a URL of outbound ones.
    ///   - addresses: Addresses, or networks in CIDR notation.
    package static func entry(_ service: String, _ addresses: [String]) -> JSONValue {
        [
            "service": .string(service), "ips": .array(addresses.map { .string($0) }), "ports": [443],
            "updatedDate": "2026-01-26",
        ]
    }

    package struct Answer: Sendable {
        /// The addresses from which Kakao calls, in entries for each service. Their members differ from document to document
        /// (`service` and `ips`, with changes to come in `addition` and `exclusion`), so they stay as they are.
        package let inbound: [JSONValue]?
        /// The addresses that Kakao's APIs have, likewise.
        package let outbound: [JSONValue]?
        /// The day of the latest change: `2026-01-26`.
        package let updatedDate: String

        package init(inbound: [JSONValue]?, outbound: [JSONValue]?, updatedDate: String) {
            self.inbound = inbound
            self.outbound = outbound
            self.updatedDate = updatedDate
        }

        private static let entries = Kind<JSONValue>(.any, allowed: "JSON", read: \.self, write: { $1.value($0) }).array

        fileprivate static let record = Record<Answer>(
            .optional("inbound", \.inbound, entries, "The addresses from which Kakao calls the service."),
            .optional("outbound", \.outbound, entries, "The addresses of Kakao that the service calls."),
            .required("updatedDate", \.updatedDate, .text, "The day of the latest change."),
            make: Answer.init
        )
    }
}
