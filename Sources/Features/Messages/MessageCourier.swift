import Accounts
import Endpoints
import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import Runtime
import Sharing

/// Makes the requests that send messages, with the tokens of their senders.
struct MessageCourier: Sendable {
    let kakao: KakaoClient
    let tokens: any UserTokenSource
    let images: ImageReferences

    /// Sends a message to some of its receivers.
    ///
    /// - Parameter latestStart: See `HTTPClientRequest.latestStart`.
    /// - Returns: What became of each receiver.
    func send(_ batch: ReceiverBatch, startingBefore latestStart: UInt64) async -> [ReceiverResult] {
        let message = batch.message
        func all(_ result: (ReceiverClaim) -> ReceiverResult) -> [ReceiverResult] { batch.receivers.map(result) }
        do {
            return try await tokens.withToken(of: message.sender) { try await send(batch, $0, latestStart) }
        } catch let error as KakaoError {
            let jitter = RetryDelay.jitter()
            return all { ReceiverResult(error, of: $0, message, batch: batch.receivers.count, jitter: jitter) }
        } catch let problem as Problem {
            let jitter = RetryDelay.jitter()
            return all { ReceiverResult(problem, of: $0, message, jitter: jitter) }
        } catch {
            // The task was cancelled before the request.
            return all { _ in .notSent }
        }
    }

    /// - Throws: ``KakaoError`` if the request failed as a whole; ``Problem`` if an image of the template is missing.
    private func send(_ batch: ReceiverBatch, _ token: String, _ latestStart: UInt64) async throws -> [ReceiverResult] {
        let message = batch.message
        let uuids = batch.receivers.compactMap(\.uuid)
        func call<Request: KakaoCall>(_ request: Request) async throws(KakaoError) -> Request.Answer {
            try await kakao.call(request, as: .userToken(token), startingBefore: latestStart)
        }
        let content = try await message.content.resolved(images)
        let arguments = content.arguments
        if message.addressing == .me {
            let answer: MemoAnswer =
                switch content {
                case .template(let template): try await call(SendDefaultMemo(template: template))
                case .custom(let id, _): try await call(SendCustomMemo(templateID: id, templateArgs: arguments))
                case .page(let url, let id, _):
                    try await call(SendScrapMemo(requestURL: url, templateID: id, templateArgs: arguments))
                }
            if let error = answer.error { throw error }
            return batch.receivers.map { _ in .sent }
        }
        let answer: FriendMessageAnswer =
            switch content {
            case .template(let template): try await call(SendDefaultMessage(receivers: uuids, template: template))
            case .custom(let id, _):
                try await call(SendCustomMessage(receivers: uuids, templateID: id, templateArgs: arguments))
            case .page(let url, let id, _):
                try await call(
                    SendScrapMessage(receivers: uuids, requestURL: url, templateID: id, templateArgs: arguments)
                )
            }
        return batch.receivers.map { ReceiverResult(answer, of: $0, message) }
    }
}

extension ReceiverResult {
    /// Creates the result of one receiver of a request that Kakao answered.
    fileprivate init(_ answer: FriendMessageAnswer, of claim: ReceiverClaim, _ message: SendingMessage) {
        switch answer.outcome(of: claim.uuid ?? "") {
        case .sent: self = .sent
        case .failed(let failure):
            let refusal = Refusal(code: failure.code, message: failure.message, isMemo: false)
            if failure.error.disposition == .retry {
                let refusal = Refusal(
                    reason: .unavailable,
                    code: failure.code.rawValue,
                    kakaoMessage: refusal.kakaoMessage
                )
                self = .retry(refusal, of: claim, after: nil, mayRepeat: false)
            } else {
                // The answer says what is true of each receiver.
                self.init(refusal, of: claim, message, batch: 1)
            }
        case .unknown: self = .unknown(.notReported, of: claim, message)
        }
    }

    /// Creates the result of a receiver for whom no request could be made.
    fileprivate init(_ problem: Problem, of claim: ReceiverClaim, _ message: SendingMessage, jitter: Double) {
        let refusal = Refusal(problem)
        if refusal.reason == .unavailable {
            self = .retry(refusal, of: claim, after: nil, mayRepeat: false, jitter: jitter)
        } else {
            self.init(refusal, of: claim, message, batch: 1)
        }
    }
}

extension Refusal {
    /// The reason for which there is no token of the sender, or no image of the template.
    init(_ problem: Problem) {
        if problem.kind == ProblemKind.unknownImage.name {
            self.init(reason: .invalidMessage, kakaoMessage: problem.detail)
        } else if problem.kind == ProblemKind.notConfigured.name {
            // An operator can correct the settings.
            self.init(reason: .unavailable, kakaoMessage: problem.detail)
        } else {
            // 409: there is no valid token, and this server cannot obtain one.
            self.init(reason: problem.status == .conflict ? .loginRequired : .unavailable)
        }
    }
}
