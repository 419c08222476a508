import KakaoAPI
import Testing

@testable import KakaoRelay

/// Receivers that were left out, in Kakao's answer to a message.
@Suite struct FailureInfoTests {
    private static let pair = FriendMessageAnswer.Failure(
        code: .pairDailyLimitExceeded,
        message: "pair",
        receivers: ["c", "d"]
    )
    private static let entry = #"{"code":-536,"msg":"pair","receiver_uuids":["c","d"]}"#

    private static func added(to body: String, _ failures: [FriendMessageAnswer.Failure] = [pair]) -> String {
        String(decoding: FailureInfo.adding(failures, to: Array(body.utf8)), as: UTF8.self)
    }

    @Test("A new code is added behind Kakao's, and everything else in the answer stays")
    func newCode() {
        #expect(
            Self.added(to: #"{"successful_receiver_uuids":["a"],"x":1.50}"#)
                == #"{"successful_receiver_uuids":["a"],"x":1.50,"failure_info":[\#(Self.entry)]}"#
        )
        #expect(
            Self.added(to: #"{"failure_info":[{"code":-530,"msg":"no","receiver_uuids":["b"]}],"result_code":-500}"#)
                == #"{"failure_info":[{"code":-530,"msg":"no","receiver_uuids":["b"]},\#(Self.entry)],"result_code":-500}"#
        )
    }

    @Test("A code that Kakao reports too keeps Kakao's text and members, and gets the receivers")
    func sameCode() {
        #expect(
            Self.added(to: #"{"failure_info":[{"code":-536,"msg":"Kakao","receiver_uuids":["b"],"y":2}]}"#)
                == #"{"failure_info":[{"code":-536,"msg":"Kakao","receiver_uuids":["b","c","d"],"y":2}]}"#
        )
        #expect(
            Self.added(to: #"{"failure_info":[{"code":-536}]}"#)
                == #"{"failure_info":[{"code":-536,"receiver_uuids":["c","d"]}]}"#
        )
    }

    @Test("One failure that Kakao writes as an object becomes an array; one that cannot be read stays")
    func otherForms() {
        let one = #"{"code":-530,"receiver_uuids":["b"]}"#
        #expect(
            Self.added(to: #"{"failure_info":\#(one)}"#) == #"{"failure_info":[\#(one),\#(Self.entry)]}"#
        )
        #expect(Self.added(to: #"{"failure_info":["?"]}"#) == #"{"failure_info":["?",\#(Self.entry)]}"#)
        #expect(Self.added(to: #"{"failure_info":null}"#) == #"{"failure_info":[\#(Self.entry)]}"#)
    }

    @Test(
        "Without receivers that were left out, a body comes back byte for byte",
        arguments: ["", "[]", #"{ "a" : 1 }"#]
    )
    func unchanged(body: String) {
        #expect(Self.added(to: body, []) == body)
    }
}
