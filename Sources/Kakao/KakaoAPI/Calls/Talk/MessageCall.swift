/// A call that sends a KakaoTalk message in the name of a user.
package protocol MessageCall: KakaoCall {
    /// The receivers; `nil` for the user.
    var messageReceivers: [String]? { get }

    /// Returns the receivers that the message did not reach, in an answer with status 200; `nil` for the user.
    func unreached(in answer: Answer) -> [String?]
}

extension MessageCall where Answer == FriendMessageAnswer {
    package func unreached(in answer: FriendMessageAnswer) -> [String?] {
        // The answer may name a receiver twice, or one of another message.
        (messageReceivers ?? []).filter { receiver in
            if case .failed = answer.outcome(of: receiver) { true } else { false }
        }
    }
}

extension MessageCall where Answer == MemoAnswer {
    package var messageReceivers: [String]? { nil }
    package func unreached(in answer: MemoAnswer) -> [String?] { answer.error == nil ? [] : [nil] }
}

extension SendDefaultMemo: MessageCall {}
extension SendCustomMemo: MessageCall {}
extension SendScrapMemo: MessageCall {}

extension SendDefaultMessage: MessageCall {
    package var messageReceivers: [String]? { receivers }
}

extension SendCustomMessage: MessageCall {
    package var messageReceivers: [String]? { receivers }
}

extension SendScrapMessage: MessageCall {
    package var messageReceivers: [String]? { receivers }
}

extension MessageCall {
    /// Returns the receivers that the message did not reach, in the body of a response with status 200; `nil` for the user.
    package func unreached(inBody body: [UInt8]) -> [String?] {
        Self.operation.answer.decode(body).map(unreached) ?? []
    }
}
