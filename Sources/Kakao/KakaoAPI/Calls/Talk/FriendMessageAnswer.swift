package import JSON
import Schemas

/// The answer to a message to friends: the receivers that it reached, and those that it did not reach.
///
/// Kakao answers 200 if the message reached at least one receiver, and an error if it reached none. Sending to all
/// receivers again would reach some of them twice: use ``outcome(of:)`` for each.
package struct FriendMessageAnswer: Sendable {
    /// The maximum number of receivers of a call.
    package static let maximumReceivers = 5

    /// The receivers that the message reached.
    package let successfulReceivers: [String]
    /// The reasons for which receivers were not reached.
    package let failures: [Failure]
    /// A code of the call as a whole, which Kakao adds to some answers; -500 in one that reached some receivers.
    package let resultCode: Int?

    package init(successfulReceivers: [String], failures: [Failure] = [], resultCode: Int? = nil) {
        self.successfulReceivers = successfulReceivers
        self.failures = failures
        self.resultCode = resultCode
    }

    /// A reason for which receivers were not reached.
    package struct Failure: Sendable, Hashable {
        package let code: KakaoErrorCode
        /// Kakao's text, with secrets masked when it is read from a response.
        package let message: String
        package let receivers: [String]

        package init(code: KakaoErrorCode, message: String, receivers: [String]) {
            self.code = code
            self.message = message
            self.receivers = receivers
        }

        /// The error of a call to one of these receivers alone.
        package var error: KakaoError {
            KakaoError(kind: .refused(status: 400, code: code, message: message), credential: .userToken)
        }

        /// The failure as Kakao writes it.
        package var json: JSONValue {
            [
                "code": .integer(code.rawValue), "msg": .string(message),
                "receiver_uuids": .array(receivers.map(JSONValue.string)),
            ]
        }

        private var knownMessage: String? { message }

        fileprivate static let record = Record<Failure>(
            .required("code", \.code.rawValue, .resultCode, "Kakao's error code."),
            .optional("msg", \.knownMessage, .text, "Kakao's text."),
            .required("receiver_uuids", \.receivers, Kind<String>.text.array, "The receivers."),
            make: { code, message, receivers in
                Failure(
                    code: KakaoErrorCode(rawValue: code),
                    message: ErrorMessage.scrubbed(message ?? "", of: []),
                    receivers: receivers
                )
            }
        )
    }

    /// The outcome of a message for one receiver.
    package enum Outcome: Sendable, Hashable {
        case sent
        case failed(Failure)
        /// The answer does not name the receiver: the message may have been sent.
        case unknown
    }

    /// Returns the outcome for a receiver.
    package func outcome(of receiver: String) -> Outcome {
        if successfulReceivers.contains(receiver) { return .sent }
        return failures.first { $0.receivers.contains(receiver) }.map(Outcome.failed) ?? .unknown
    }

    private static let record = Record<FriendMessageAnswer>(
        .optional(
            "successful_receiver_uuids",
            \.successfulReceivers.unlessEmpty,
            Kind<String>.text.array,
            "The receivers that the message reached; absent if there are none."
        ),
        .optional(
            "failure_info",
            \.failures.unlessEmpty,
            .failures,
            "The reasons for which receivers were not reached: several, or one as an object."
        ),
        .optional("result_code", \.resultCode, .resultCode, "A code of the call as a whole."),
        make: { successful, failures, resultCode in
            FriendMessageAnswer(
                successfulReceivers: successful ?? [],
                failures: failures ?? [],
                resultCode: resultCode
            )
        }
    )

    static let answer = KakaoAnswer.json(
        record.kind("KakaoMessageResult"),
        example: FriendMessageAnswer(
            successfulReceivers: ["abcdefg0001", "abcdefg0002"],
            failures: [
                Failure(
                    code: .messagesRefused,
                    message: "The receiver does not allow messages.",
                    receivers: ["abcdefg0003"]
                )
            ]
        )
    )
}

extension Kind where Value == [FriendMessageAnswer.Failure] {
    /// An array of failures, or one alone. An element that cannot be read leaves the receivers of the others known.
    fileprivate static var failures: Kind {
        let failure = FriendMessageAnswer.Failure.record.kind("KakaoMessageFailure")
        let array = failure.array
        return Kind(
            .oneOf([array.input, failure.input]),
            allowed: array.allowed,
            read: { value throws(InvalidValue) in (value.array ?? [value]).compactMap { try? failure.read($0) } },
            write: array.write
        )
    }
}

extension Array {
    /// The array, or `nil` if it is empty: Kakao leaves out members without elements.
    var unlessEmpty: [Element]? { isEmpty ? nil : self }
}
