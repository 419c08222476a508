import Accounts
import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import KakaoAPI
import Runtime
import ServiceKit

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
        if let refusal = try await senderRefusal(message) {
            for index in receivers.indices { receivers[index].refuse(refusal) }
            return receivers
        }
        if message.receivers.addressing != .me, let refusal = try await findFriends(&receivers, message) {
            for index in receivers.indices { receivers[index].refuse(refusal) }
            return receivers
        }
        try await takeRoom(&receivers, message)
        return receivers
    }

    /// Returns why nothing can be sent in the sender's name.
    private func senderRefusal(_ message: NewMessage) async throws -> Refusal? {
        do {
            var token = try await tokens.accessToken(of: message.sender, replacing: nil)
            let agreed: UserScopes
            do throws(KakaoError) {
                agreed = try await kakao.call(RetrieveScopes(), as: .userToken(token))
            } catch {
                guard error.disposition == .logIn else { throw error }
                token = try await tokens.accessToken(of: message.sender, replacing: token)
                agreed = try await kakao.call(RetrieveScopes(), as: .userToken(token))
            }
            let needed =
                [Self.messageScope] + (message.receivers.addressing == .me ? [] : [Self.friendsScope])
            let missing = needed.filter { id in agreed.scopes?.contains { $0.id == id && $0.isAgreed } != true }
            return missing.isEmpty ? nil : Refusal(reason: .missingScope, scopes: missing)
        } catch let error as KakaoError {
            guard let refusal = Refusal(error) else {
                throw Problem(error, about: "the scopes of the sender", isIdempotent: true)
            }
            return refusal
        } catch let problem as Problem {
            let refusal = Refusal(problem)
            guard refusal.reason != .unavailable else { throw problem }
            return refusal
        }
    }

    /// Finds the receivers among the sender's friends. Returns why Kakao does not show them.
    private func findFriends(_ receivers: inout [ReceiverSummary], _ message: NewMessage) async throws -> Refusal? {
        let list: FriendsLists.Friends
        do {
            list = try await friends.friends(of: message.sender) { [receivers] list in
                receivers.allSatisfy { list.has($0) }
            }
        } catch let refused as FriendsLists.Refused {
            return refused.refusal
        } catch is FriendsLists.Unavailable {
            throw Problem(of: .kakaoUnavailable, "Kakao is unavailable. Try again.", headerFields: [.retryAfter: "5"])
        }
        for index in receivers.indices {
            if !list.has(receivers[index]) {
                receivers[index].refuse(Refusal(reason: .notInFriendsList))
            } else if let userID = receivers[index].userID, let uuid = list.uuids[userID] {
                receivers[index] = ReceiverSummary(
                    position: receivers[index].position,
                    userID: userID,
                    uuid: uuid,
                    state: .pending
                )
            }
        }
        return nil
    }

    /// Finds the receivers for whom a quota is used up.
    private func takeRoom(_ receivers: inout [ReceiverSummary], _ message: NewMessage) async throws {
        let isMemo = message.receivers.addressing == .me
        let open = receivers.indices.filter { receivers[$0].state == .pending }
        var room = try await reservations.room(
            for: isMemo ? [nil] : open.map { receivers[$0].uuid },
            from: message.sender
        )
        for index in open {
            guard let quota = room.take(from: message.sender, to: isMemo ? nil : receivers[index].uuid) else {
                continue
            }
            receivers[index].refuse(Refusal(reason: quota.reason))
            if message.whenOverQuota == .wait {
                receivers[index].state = .waiting
                receivers[index].retryAt = room.nextDay
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
