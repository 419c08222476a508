import HTTPClient
import JSON
import Schemas
import Testing

@testable import KakaoAPI

/// The responses to calls of KakaoTalk, in all forms in which Kakao sends them.
@Suite struct TalkCallTests {
    // MARK: Friends

    private static func friends(_ body: String) -> RetrieveFriends.Answer? {
        RetrieveFriends.operation.answer.decode(Array(body.utf8))
    }

    @Test(
        "Friends without elements are an empty list",
        arguments: [
            #"{"total_count":0}"#, #"{"elements":null,"total_count":0,"before_url":null,"after_url":null}"#,
            #"{"elements":[],"total_count":0,"favorite_count":0}"#,
        ]
    )
    func noFriends(body: String) throws {
        let answer = try #require(Self.friends(body))
        #expect(answer.friends.isEmpty)
        #expect(answer.totalCount == 0)
        #expect(answer.afterURL == nil)
        #expect(RetrieveFriends.operation.answer.encode(answer).starts(with: Array(#"{"total_count":0"#.utf8)))
    }

    @Test("A friend with invalid members is read; one without a uuid does not hide the others")
    func invalidFriends() throws {
        let body = """
            {"elements":[{"uuid":"a","id":"x","favorite":1,"profile_nickname":null},{"id":2},7,
            {"uuid":"b","id":3,"favorite":true,"profile_thumbnail_image":"","allowed_msg":false}],"total_count":4}
            """
        let friends = try #require(Self.friends(body)).friends
        #expect(
            friends == [
                RetrieveFriends.Friend(userID: nil, uuid: "a", nickname: nil, thumbnailURL: nil, isFavorite: nil),
                RetrieveFriends.Friend(
                    userID: 3,
                    uuid: "b",
                    nickname: nil,
                    thumbnailURL: "",
                    isFavorite: true,
                    allowsMessages: false
                ),
            ]
        )
        #expect(Self.friends("{}") == nil)
    }

    @Test("The next page is read from the query of its address, whatever the host")
    func nextPage() throws {
        for host in ["https://kapi.kakao.com/v1/api/talk/friends", "http://evil.example/x", "", "/v1/api/talk/friends"]
        {
            let address = "\(host)?offset=6&limit=3&order=desc&friend_order=nickname&more=%20#offset=1"
            let call = try #require(RetrieveFriends(pageAt: address))
            #expect(call.offset == 6)
            #expect(call.limit == 3)
            #expect(call.order == .descending)
            #expect(call.friendOrder == .nickname)
        }
        let short = try #require(RetrieveFriends(pageAt: "?offset=0"))
        #expect(short.limit == nil)
        #expect(short.order == nil)
    }

    @Test(
        "An address without a valid offset has no next page, so that pages never begin again",
        arguments: [
            "", "https://kapi.kakao.com/v1/api/talk/friends", "?", "?limit=3", "?offset", "?offset=", "?offset=-1",
            "?offset=x", "?offset=+5", "?offset=6&limit=0", "?offset=6&limit=101", "?offset=6&order=up",
            "?offset=99999999999999999999", "#?limit=1",
        ]
    )
    func noNextPage(address: String) {
        #expect(RetrieveFriends(pageAt: address) == nil)
    }

    // MARK: Messages

    private static func message(_ body: String) -> FriendMessageAnswer? {
        SendDefaultMessage.operation.answer.decode(Array(body.utf8))
    }

    @Test("All receivers are reached")
    func allReached() throws {
        let answer = try #require(Self.message(#"{"successful_receiver_uuids":["a","b"],"failure_info":null}"#))
        #expect(answer.successfulReceivers == ["a", "b"])
        #expect(answer.failures.isEmpty)
        #expect(answer.resultCode == nil)
        #expect(answer.outcome(of: "a") == .sent)
        #expect(answer.outcome(of: "c") == .unknown)
    }

    @Test("Some receivers are reached, and the reasons of the others come in an array, or as one object")
    func someReached() throws {
        let info = #"{"code":-530,"msg":"said","receiver_uuids":["b","c"]}"#
        for failures in ["[\(info)]", info] {
            let body = #"{"result_code":-500,"successful_receiver_uuids":["a"],"failure_info":\#(failures)}"#
            let answer = try #require(Self.message(body))
            let failure = FriendMessageAnswer.Failure(code: .messagesRefused, message: "said", receivers: ["b", "c"])
            #expect(answer.failures == [failure])
            #expect(answer.resultCode == -500)
            #expect(answer.outcome(of: "a") == .sent)
            #expect(answer.outcome(of: "c") == .failed(failure))
            #expect(failure.error.disposition == .fail)
        }
    }

    @Test("A 200 may say that no receiver was reached, or nothing at all")
    func noneReached() throws {
        let failed = try #require(
            Self.message(#"{"failure_info":[{"code":-1,"receiver_uuids":["a"]},{"code":-502,"receiver_uuids":["b"]}]}"#)
        )
        #expect(failed.successfulReceivers.isEmpty)
        #expect(failed.failures.map(\.code) == [.internalError, .notFriend])
        #expect(failed.failures.map(\.error.disposition) == [.retry, .fail])
        let empty = try #require(Self.message("{}"))
        #expect(empty.outcome(of: "a") == .unknown)
    }

    @Test("A reason that cannot be read leaves the others, and its receivers are unknown")
    func invalidFailures() throws {
        let body = """
            {"successful_receiver_uuids":["a"],"failure_info":[{"code":"x","receiver_uuids":["b"]},{"code":-533},7,
            {"code":-536,"msg":7,"receiver_uuids":["c"]}]}
            """
        let answer = try #require(Self.message(body))
        #expect(answer.failures.map(\.receivers) == [["c"]])
        #expect(answer.outcome(of: "b") == .unknown)
    }

    @Test("A receiver that is named as reached and as failed counts as reached, so that no message is sent twice")
    func contradiction() throws {
        let body = #"{"successful_receiver_uuids":["a"],"failure_info":{"code":-1,"receiver_uuids":["a"]}}"#
        #expect(try #require(Self.message(body)).outcome(of: "a") == .sent)
    }

    @Test("A receiver counts as not reached once, and only if it is one of the message")
    func unreached() throws {
        let body = """
            {"successful_receiver_uuids":["a"],"failure_info":[{"code":-1,"receiver_uuids":["b","b","x"]},
            {"code":-530,"receiver_uuids":["b","a"]}]}
            """
        let message = SendCustomMessage(receivers: ["a", "b", "c"], templateID: 7)
        #expect(message.unreached(inBody: Array(body.utf8)) == ["b"])
    }

    @Test("Kakao's text of a failure is scrubbed as that of an error is")
    func scrubbed() throws {
        let body = #"{"failure_info":[{"code":-1,"msg":"said, token=secret","receiver_uuids":["a"]}]}"#
        #expect(try #require(Self.message(body)).failures.first?.message == "said, token=***")
    }

    @Test("A memo with a result code other than 0 failed, in spite of its status")
    func memo() throws {
        let decode = SendCustomMemo.operation.answer.decode
        #expect(try #require(decode(Array(#"{"result_code":0}"#.utf8))).error == nil)
        for (code, disposition) in [(-500, Disposition.fail), (-1, .retry), (-402, .consent), (-532, .fail)] {
            let error = try #require(decode(Array(#"{"result_code":\#(code)}"#.utf8))).error
            #expect(error?.code?.rawValue == code)
            #expect(error?.disposition == disposition)
        }
        #expect(decode(Array("{}".utf8)) == nil)
    }

    @Test("Sends are not idempotent; a call with a template_args or a receiver_id_type of an SDK is read")
    func parameters() throws {
        #expect(!SendDefaultMessage.operation.isIdempotent)
        #expect(!SendScrapMemo.operation.isIdempotent)
        let values: JSONObject = [
            "receiver_uuids": #"["a"]"#, "template_id": "7", "template_args": "null", "receiver_id_type": "uuid",
        ]
        let call = try SendCustomMessage.operation.parameters.read(values)
        #expect(call.receivers == ["a"])
        #expect(call.templateArgs == nil)
        #expect(SendCustomMessage.operation.texts(of: call).map(\.name).contains("template_args") == false)
    }

    @Test("A message has 1 to 5 receivers", arguments: [0, 6])
    func receivers(count: Int) {
        let uuids = Array(repeating: "\"a\"", count: count).joined(separator: ",")
        let values: JSONObject = ["receiver_uuids": .string("[\(uuids)]"), "request_url": "https://example.com"]
        #expect(throws: (any Error).self) { try SendScrapMessage.operation.parameters.read(values) }
    }
}
