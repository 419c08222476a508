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
package struct MessageQuotaSettings: Sendable {
    package var timeZone = "Asia/Seoul"
    package var app = 30_000
    package var sender = 100
    package var receiver = 100
    package var pair = 20
    /// The messages that a user may send to oneself. Kakao does not document whether they count as those to others.
    package var memo = 100
    /// The time after the start of a day within which waiting messages are sent; tests shorten it.
    package var spread = Duration.seconds(600)

    /// The parameters of statements that compare the quotas with their limits.
    var limits: [PostgresValue] {
        [app, sender, receiver, pair, memo].map { .int32(Int32(clamping: $0)) }
    }

    func limit(of key: MessageQuotaKey) -> Int {
        switch key.quota {
        case .app: app
        case .sender: sender
        case .receiver: receiver
        case .pair: key.receiver.isEmpty ? memo : pair
        }
    }
}
