/// A call that sends a KakaoTalk message in the name of a user.
package protocol MessageCall: KakaoCall {
    /// The receivers; `nil` for the user.
    var messageReceivers: [String]? { get }

    /// Returns the receivers that the message did not reach, in an answer with status 200; `nil` for the user.
    func unreached(in answer: Answer) -> [String?]

    /// Returns the same message to fewer receivers; a message to the user is returned as it is.
    func addressed(to receivers: [String]) -> Self
}

/// A call that sends a KakaoTalk message to friends of a user.
package protocol FriendMessageCall: MessageCall where Answer == FriendMessageAnswer {
    /// The `uuid` of each receiver: 1 to 5 friends of the sender.
    var receivers: [String] { get set }
}

extension FriendMessageCall {
    package var messageReceivers: [String]? { receivers }

    package func unreached(in answer: FriendMessageAnswer) -> [String?] {
        // The answer may name a receiver twice, or one of another message.
        (messageReceivers ?? []).filter { receiver in
            if case .failed = answer.outcome(of: receiver) { true } else { false }
        }
    }

    package func addressed(to receivers: [String]) -> Self {
        var message = self
        message.receivers = receivers
        return message
    }
}

extension MessageCall where Answer == MemoAnswer {
    package var messageReceivers: [String]? { nil }
    package func unreached(in answer: MemoAnswer) -> [String?] { answer.error == nil ? [] : [nil] }
    package func addressed(to _: [String]) -> Self { self }
}

extension SendDefaultMemo: MessageCall {}
extension SendCustomMemo: MessageCall {}
extension SendScrapMemo: MessageCall {}

extension SendDefaultMessage: FriendMessageCall {}
extension SendCustomMessage: FriendMessageCall {}
extension SendScrapMessage: FriendMessageCall {}

extension MessageCall {
    /// Returns the receivers that the message did not reach, in the body of a response with status 200; `nil` for the user.
    package func unreached(inBody body: [UInt8]) -> [String?] {
        Self.operation.answer.decode(body).map(unreached) ?? []
    }
}
