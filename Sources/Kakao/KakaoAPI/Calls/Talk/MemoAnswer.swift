import JSON
import Schemas

/// The answer to a message to the user's own chatroom.
package struct MemoAnswer: Sendable {
    /// 0 if the message was sent, otherwise Kakao's error code.
    package let resultCode: Int

    package init(resultCode: Int) {
        self.resultCode = resultCode
    }

    /// The error that the answer reports in spite of its status 200; `nil` if the message was sent.
    package var error: KakaoError? { KakaoError(resultCode: resultCode) }

    static let answer = KakaoAnswer.json(
        Record<MemoAnswer>(
            .required("result_code", \.resultCode, .resultCode, "0 if the message was sent, otherwise an error code."),
            make: MemoAnswer.init
        )
        .kind("KakaoMemoResult"),
        example: MemoAnswer(resultCode: 0)
    )
}

extension Kind where Value == Int {
    /// Kakao's result or error code.
    static var resultCode: Kind {
        let number = Kind<Int32>.number
        return Kind(
            number.input,
            allowed: number.allowed,
            read: { value throws(InvalidValue) in Int(try number.read(value)) },
            write: { $1.value($0) }
        )
    }
}

extension KakaoError {
    /// The error of an answer with status 200 to a call with a user's token; `nil` for the result code 0.
    init?(resultCode: Int) {
        guard resultCode != 0 else { return nil }
        self.init(
            kind: .refused(status: 200, code: KakaoErrorCode(rawValue: resultCode), message: ""),
            credential: .userToken
        )
    }
}
