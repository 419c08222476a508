package import JSON

/// A message that reached one user.
package struct TalkMessage: Sendable {
    /// The number of the message, counted from 1 in the order of delivery, without gaps.
    package let sequence: Int
    /// The time by Kakao's clock, in Unix milliseconds.
    package let deliveredAt: Int64
    package let senderID: Int64
    /// The receiver; the sender, if the message went to the user's own chatroom.
    package let receiverID: Int64
    /// The receiver's uuid.
    package let uuid: String
    /// The name of the call, such as `talk_message_default`.
    package let call: String
    /// The content: see ``MessageContent``.
    package let content: String
}

extension TalkMessage: JSONWritable {
    package func write(to writer: inout JSONWriter) {
        writer.object {
            $0.member("sequence", sequence)
            $0.member("delivered_at", WallClock.text(unixMilliseconds: deliveredAt))
            $0.member("sender_id", String(senderID))
            $0.member("receiver_id", String(receiverID))
            $0.member("uuid", uuid)
            $0.member("call", call)
            $0.member("content", JSONFragment(Array(content.utf8)))
        }
    }
}

/// A content that one user received from another more than once.
package struct RepeatedMessage: Sendable, Hashable {
    package let senderID: Int64
    package let receiverID: Int64
    package let content: String
    package let times: Int
}

extension RepeatedMessage: JSONWritable {
    package func write(to writer: inout JSONWriter) {
        writer.object {
            $0.member("sender_id", String(senderID))
            $0.member("receiver_id", String(receiverID))
            $0.member("times", times)
            $0.member("content", JSONFragment(Array(content.utf8)))
        }
    }
}

/// The counts of the messages since the record began.
package struct TalkTotals: Sendable, Equatable {
    /// The messages that reached a user, by the name of the call.
    package var delivered: [String: Int] = [:]
    /// The receivers whom a message did not reach, by Kakao's error code.
    package var failed: [Int: Int] = [:]
    /// The messages that are kept in full: the newest.
    package var kept = 0
}

extension TalkTotals: JSONWritable {
    package func write(to writer: inout JSONWriter) {
        writer.object { json in
            json.counts("delivered", delivered)
            json.object("failed") { json in
                for (code, count) in failed.sorted(by: { $0.key > $1.key }) { json.member(String(code), count) }
            }
            json.member("kept", kept)
        }
    }
}

/// The content of a message as JSON: the parameters of the call that describe it.
struct MessageContent {
    /// The JSON text. The limit of a call's parameters bounds it.
    let text: String

    init(template: JSONObject) {
        self.init(["template_object": .object(template)])
    }

    init(templateID: Int64, args: JSONObject?) {
        self.init(requestURL: nil, templateID: templateID, args: args)
    }

    init(requestURL: String?, templateID: Int64?, args: JSONObject?) {
        var members = JSONObject()
        members["request_url"] = requestURL.map(JSONValue.string)
        members["template_id"] = templateID.map(JSONValue.integer)
        members["template_args"] = args.map(JSONValue.object)
        self.init(members)
    }

    private init(_ members: JSONObject) {
        text = JSONValue.object(members).description
    }
}
