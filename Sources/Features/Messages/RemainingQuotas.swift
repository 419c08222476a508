import FoundationEssentials
import HTTPServer
import KakaoAPI

/// The messages that may still be sent today. Pure.
struct RemainingQuotas {
    /// The day, as PostgreSQL writes it.
    let day: String
    /// When the quotas begin anew.
    let nextDay: Date
    /// The number of messages for each quota.
    var messages: [MessageQuotaKey: Int] = [:]

    init(day: String, nextDay: Date) {
        self.day = day
        self.nextDay = nextDay
    }

    /// Creates the rest of the quotas of which some messages are used; `nil` without any.
    init?(_ used: [ReadMessageQuotas.Usage], _ quotas: MessageQuotaSettings) {
        guard let first = used.first else { return nil }
        self.init(day: first.day, nextDay: first.nextDay)
        for row in used { messages[row.key] = quotas.limit(of: row.key) - Int(row.used) }
    }

    /// Counts one more message against its quotas, or as many as the receiver is named. If one of the quotas is used up,
    /// returns it and counts nothing.
    mutating func charge(_ count: Int = 1, from sender: Int64, to uuid: String?) -> MessageQuota? {
        let keys = MessageQuota.allCases.filter { $0 != .receiver || uuid != nil }
            .map { MessageQuotaKey($0, sender: sender, uuid: uuid) }
        if let full = keys.first(where: { messages[$0, default: 0] < count }) { return full.quota }
        for key in keys { messages[key, default: 0] -= count }
        return nil
    }

    /// Counts a message to several receivers, as far as there is room. A receiver who is named twice counts twice, or not
    /// at all: Kakao does not document which.
    mutating func charge(
        from sender: Int64,
        to uuids: [String?]
    ) -> (counted: [String?], refused: [RefusedReceiver]) {
        let times = Dictionary(uuids.map { ($0, 1) }, uniquingKeysWith: +)
        var refusals: [String?: MessageQuota] = [:]
        var refused: [RefusedReceiver] = []
        var decided: Set<String?> = []
        for uuid in uuids where decided.insert(uuid).inserted {
            guard let quota = charge(times[uuid, default: 1], from: sender, to: uuid) else { continue }
            refusals[uuid] = quota
            refused.append(RefusedReceiver(uuid: uuid, quota: quota))
        }
        return (uuids.filter { refusals[$0] == nil }, refused)
    }
}

/// A receiver for whom a quota is used up.
struct RefusedReceiver: Sendable, Equatable {
    /// `nil` for the sender.
    let uuid: String?
    let quota: MessageQuota
}

extension [RefusedReceiver] {
    /// The receivers by Kakao's code, those of the quota that counts most users first; without the sender, whom no `failure_info` names.
    var failures: [FriendMessageAnswer.Failure] {
        MessageQuota.allCases.compactMap { quota in
            let uuids = filter { $0.quota == quota }.compactMap(\.uuid)
            return uuids.isEmpty
                ? nil
                : FriendMessageAnswer.Failure(code: quota.code, message: quota.text, receivers: uuids)
        }
    }
}

extension MessageQuota {
    /// The reason of a receiver whose quota is used up.
    var reason: Reason {
        switch self {
        case .app: .appQuota
        case .sender: .senderQuota
        case .receiver: .receiverQuota
        case .pair: .pairQuota
        }
    }

    /// Kakao's error code.
    var code: KakaoErrorCode {
        switch self {
        case .app: .quotaExceeded
        case .sender: .senderDailyLimitExceeded
        case .receiver: .receiverDailyLimitExceeded
        case .pair: .pairDailyLimitExceeded
        }
    }

    /// Kakao's text of the error, or ours where Kakao's is not known.
    var text: String { KakaoWords.message(of: code.rawValue) ?? reason.remedy }
}
