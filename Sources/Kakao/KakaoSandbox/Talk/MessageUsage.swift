import KakaoAPI
import Net

/// The numbers of messages of the current day and month in Seoul, to which the quotas apply.
struct MessageUsage {
    /// A sender and a receiver.
    private struct Pair: Hashable {
        let sender: Int64
        let receiver: Int64
    }

    private var day: CivilDate?
    /// The messages of the app today.
    private(set) var app = 0
    private var senders: [Int64: Int] = [:]
    private var receivers: [Int64: Int] = [:]
    private var pairs: [Pair: Int] = [:]
    private var sendersOfMonth: [Int64: Int] = [:]

    /// Resets the counts of the day and of the month if a new one has begun in Korea.
    ///
    /// - Parameter now: The time in Unix milliseconds.
    mutating func advance(to now: Int64) {
        let date = CivilDate(unixSeconds: Int(now / 1000) + WallClock.seoulOffsetSeconds)
        if let day, (day.year, day.month, day.day) == (date.year, date.month, date.day) { return }
        let isSameMonth = day.map { ($0.year, $0.month) == (date.year, date.month) } ?? false
        let month = isSameMonth ? sendersOfMonth : [:]
        self = MessageUsage()
        day = date
        sendersOfMonth = month
    }

    /// Returns Kakao's error if a quota leaves no room for a message.
    func refusal(from sender: Int64, to receiver: Int64, _ settings: TalkSettings) -> KakaoRefusal? {
        func isUsedUp(_ quota: Int?, _ used: Int?) -> Bool { quota.map { used ?? 0 >= $0 } ?? false }
        let quotas = settings.quotas
        if let refusal = refusal(ofApp: settings) { return refusal }
        if isUsedUp(quotas.senderMonth, sendersOfMonth[sender]) {
            return .error(.senderMonthlyLimitExceeded, "monthly message limit per sender has been exceeded.")
        }
        if isUsedUp(quotas.sender, senders[sender]) {
            return .error(.senderDailyLimitExceeded, "daily message limit per sender has been exceeded.")
        }
        if isUsedUp(quotas.receiver, receivers[receiver]) {
            return .error(.receiverDailyLimitExceeded, "daily message limit per receiver has been exceeded.")
        }
        if isUsedUp(quotas.pair, pairs[Pair(sender: sender, receiver: receiver)]) {
            return .error(.pairDailyLimitExceeded, "daily message limit per sender and receiver has been exceeded.")
        }
        return nil
    }

    /// Returns Kakao's error if the quota of the app is used up.
    func refusal(ofApp settings: TalkSettings) -> KakaoRefusal? {
        let quota = settings.isReviewed ? settings.quotas.app : settings.quotas.unreviewedApp
        return quota.map { app >= $0 } ?? false ? .quotaExceeded() : nil
    }

    /// Counts a message.
    mutating func count(from sender: Int64, to receiver: Int64) {
        countApp()
        senders[sender, default: 0] += 1
        receivers[receiver, default: 0] += 1
        pairs[Pair(sender: sender, receiver: receiver), default: 0] += 1
        sendersOfMonth[sender, default: 0] += 1
    }

    /// Counts a message against the quota of the app only.
    mutating func countApp() {
        app += 1
    }
}
