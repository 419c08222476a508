import Postgres

/// A quota of messages for a day.
enum MessageQuota: String, Sendable, CaseIterable {
    /// The messages of the app.
    case app
    /// The messages that a user sends.
    case sender
    /// The messages that a user receives.
    case receiver
    /// The messages of one sender to one receiver.
    case pair
}

/// A quota with the users whom it counts: the key of a row of `message_quotas`.
struct MessageQuotaKey: Sendable, Hashable {
    let quota: MessageQuota
    /// 0 for a quota that does not count by sender.
    let sender: Int64
    /// The receiver's uuid; empty for a quota that does not count by receiver, and for the sender as receiver.
    let receiver: String

    /// - Parameter uuid: The receiver; `nil` for the sender.
    init(_ quota: MessageQuota, sender: Int64, uuid: String?) {
        self.quota = quota
        self.sender = quota == .sender || quota == .pair ? sender : 0
        receiver = quota == .receiver || quota == .pair ? uuid ?? "" : ""
    }
}

/// The limits of Kakao's quotas for messages, and the time zone of their days.
struct MessageQuotaSettings: Sendable {
    var timeZone = "Asia/Seoul"
    var app: Int32 = 30_000
    var sender: Int32 = 100
    var receiver: Int32 = 100
    var pair: Int32 = 20
    /// The messages that a user may send to oneself. Kakao does not document whether they count as those to others.
    var memo: Int32 = 100
    /// The time after the start of a day within which waiting messages are sent.
    var spread = Duration.seconds(600)

    func limit(of key: MessageQuotaKey) -> Int32 {
        switch key.quota {
        case .app: app
        case .sender: sender
        case .receiver: receiver
        case .pair: key.receiver.isEmpty ? memo : pair
        }
    }
}
