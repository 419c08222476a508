import Accounts
import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import KakaoAPI
import Runtime
import Schemas
import Sharing
import Templates

/// Says for each receiver of a message whether it would be sent, without sending anything.
struct MessagePreviewer: Sendable {
    private static let messageScope = "talk_message"
    private static let friendsScope = "friends"

    let kakao: KakaoClient
    let tokens: any UserTokenSource
    let friends: FriendsLists
    let reservations: QuotaReservations

    /// Returns the receivers of a message, with the reasons for which they would not be reached.
    ///
    /// - Throws: ``Problem`` if Kakao cannot be asked now.
    func receivers(of message: NewMessage) async throws -> [ReceiverSummary] {
        let given: [(userID: Int64?, uuid: String?)] =
            switch message.receivers {
            case .me: [(message.sender, nil)]
            case .friends(let uuids): uuids.map { (nil, $0) }
            case .users(let ids): ids.map { ($0, nil) }
            }
        var receivers = given.enumerated().map { index, receiver in
            ReceiverSummary(position: Int32(index), userID: receiver.userID, uuid: receiver.uuid, state: .pending)
        }
        do {
            try await requireConsent(to: message)
            if message.receivers.addressing != .me { try await findFriends(&receivers, message) }
            try await applyQuotas(to: &receivers, message)
        } catch let refusal as Refusal {
            for index in receivers.indices { receivers[index].refuse(refusal) }
        }
        return receivers
    }

    /// - Throws: ``Refusal`` if nothing can be sent in the sender's name; ``Problem`` if Kakao cannot be asked now.
    private func requireConsent(to message: NewMessage) async throws {
        do {
            let agreed = try await tokens.withToken(of: message.sender) { token in
                try await kakao.call(RetrieveScopes(), as: .userToken(token))
            }
            let needed =
                [Self.messageScope] + (message.receivers.addressing == .me ? [] : [Self.friendsScope])
            let missing = needed.filter { id in agreed.scopes?.contains { $0.id == id && $0.isAgreed } != true }
            guard missing.isEmpty else { throw Refusal(reason: .missingScope, scopes: missing) }
        } catch let error as KakaoError {
            if let refusal = Refusal(error) { throw refusal }
            throw Problem(error, about: "the scopes of the sender", isIdempotent: true)
        } catch let problem as Problem {
            let refusal = Refusal(problem)
            guard refusal.reason == .unavailable else { throw refusal }
            throw problem
        }
    }

    /// Finds the receivers among the sender's friends.
    ///
    /// - Throws: ``Refusal`` if Kakao does not show them; ``Problem`` if Kakao cannot be asked now.
    private func findFriends(_ receivers: inout [ReceiverSummary], _ message: NewMessage) async throws {
        let list: FriendsLists.Friends
        do {
            list = try await friends.friends(of: message.sender) { [receivers] list in
                receivers.allSatisfy { list.has($0) }
            }
        } catch is FriendsLists.Unavailable {
            throw Problem(of: .kakaoUnavailable, "Kakao is unavailable. Try again.", headerFields: [.retryAfter: "5"])
        }
        for index in receivers.indices {
            if !list.has(receivers[index]) {
                receivers[index].refuse(Refusal(reason: .notInFriendsList))
            } else if let userID = receivers[index].userID, let uuid = list.uuids[userID] {
                receivers[index].uuid = uuid
            }
        }
    }

    /// Finds the receivers for whom a quota is used up.
    private func applyQuotas(to receivers: inout [ReceiverSummary], _ message: NewMessage) async throws {
        let isMemo = message.receivers.addressing == .me
        let open = receivers.indices.filter { receivers[$0].state == .pending }
        var quotas = try await reservations.remainingQuotas(
            for: isMemo ? [nil] : open.map { receivers[$0].uuid },
            from: message.sender
        )
        for index in open {
            guard let quota = quotas.charge(from: message.sender, to: isMemo ? nil : receivers[index].uuid) else {
                continue
            }
            receivers[index].refuse(Refusal(reason: quota.reason))
            if message.whenOverQuota == .wait {
                receivers[index].state = .waiting
                receivers[index].retryAt = quotas.nextDay
            }
        }
    }
}

extension FriendsLists.Friends {
    fileprivate func has(_ receiver: ReceiverSummary) -> Bool {
        if let uuid = receiver.uuid { return all.contains(uuid) }
        return receiver.userID.map { uuids[$0] != nil } ?? false
    }
}

extension ReceiverSummary {
    fileprivate mutating func refuse(_ refusal: Refusal) {
        state = .failed
        reason = refusal.reason
        code = refusal.code.map(Int32.init(clamping:))
        kakaoMessage = refusal.kakaoMessage
        scopes = refusal.scopes
    }
}

/// The result of a dry run.
struct MessagePreview: Sendable {
    let receivers: [ReceiverSummary]
    let findings: [Finding]

    static let shape = Shape<MessagePreview>(
        "MessageDryRun",
        [
            .member("sendable", .count, "The number of receivers to whom the message would be sent at once.") {
                preview in
                Int64(preview.receivers.count { $0.state == .pending })
            },
            .array(
                "receivers",
                ReceiverSummary.shape.kind,
                "The receivers: `pending` if the message would be sent at once, `waiting` for a quota, or `failed`.",
                \.receivers
            ),
            .array("findings", Finding.shape.kind, "What Kakao would cut or drop of the template.", \.findings),
        ]
    )
}
