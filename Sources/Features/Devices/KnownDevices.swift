import EventLoop
import FoundationEssentials
import KakaoAPI
import Runtime

/// A change of a device, as PostgreSQL has committed it.
struct DeviceChange: Sendable {
    let key: DeviceKey
    let pushToken: String
    let isWithdrawn: Bool
    /// The time of the transaction, by the database's clock. It orders the changes of a device and of a token.
    let changedAt: Date
}

/// The registrations and withdrawals of the last minutes that PostgreSQL has confirmed to an event loop: what it knows if PostgreSQL
/// loses them. Repeated registrations change nothing that matters, and imports can be repeated.
struct KnownDevices: Sendable {
    /// The latest change of a device, with what is needed to store it again.
    struct Known: Sendable {
        let change: DeviceChange
        /// `nil` for a device that was withdrawn.
        let registration: DeviceRegistration?
    }

    /// The most changes of each half, and the most bytes of their texts: a registration usually has 200.
    private static let maximumHalf = (count: 25_000, bytes: 16 << 20)

    private var changes = RecentHalves(empty: ChangeLog())

    fileprivate mutating func record(_ change: DeviceChange, _ registration: DeviceRegistration?) {
        let (count, bytes) = (changes.current.count, changes.current.bytes)
        changes.change(isFull: count >= Self.maximumHalf.count || bytes >= Self.maximumHalf.bytes) {
            $0.append(change, registration)
        }
    }

    /// Returns what several loops know, the latest change of each device, in the order of the changes.
    static func merged(_ all: [KnownDevices]) -> [Known] {
        let known = all.flatMap { $0.changes.all().flatMap(\.all) }
        return Dictionary(known.map { ($0.change.key, $0) }) { $0.change.changedAt > $1.change.changedAt ? $0 : $1 }
            .values.sorted { $0.change.changedAt < $1.change.changedAt }
    }
}

/// Changes of devices, one after the other.
///
/// They lie in two blocks of memory. If each change kept strings of its own, these would stay scattered among the short-lived ones of
/// requests and fragment the heap: a registration took a sixth more time.
private struct ChangeLog: Sendable {
    private struct Entry {
        let userID: Int64
        let pushType: PushType
        let isWithdrawn: Bool
        let changedAt: Date
        let authorizedAt: MonotonicTime?
        /// Where its texts end.
        let end: Int
    }

    private var entries: [Entry] = []
    /// The texts of each change, each followed by a zero, which PostgreSQL stores in no text: device id and token, and for a registration
    /// locale, time zone, version and name of the key, which are empty if they are `nil`, and tags.
    private var texts: [UInt8] = []

    var count: Int { entries.count }
    var bytes: Int { texts.count }

    mutating func append(_ change: DeviceChange, _ registration: DeviceRegistration?) {
        append(change.key.deviceID)
        append(change.pushToken)
        if let registration {
            append(registration.locale ?? "")
            append(registration.timezone ?? "")
            append(registration.appVersion ?? "")
            append(registration.keyName ?? "")
            for tag in registration.tags { append(tag) }
        }
        entries.append(
            Entry(
                userID: change.key.userID,
                pushType: change.key.pushType,
                isWithdrawn: registration == nil,
                changedAt: change.changedAt,
                authorizedAt: registration?.authorizedAt,
                end: texts.count
            )
        )
    }

    private mutating func append(_ text: String) {
        texts.append(contentsOf: text.utf8)
        texts.append(0)
    }

    var all: [KnownDevices.Known] {
        var start = 0
        return entries.map { entry in
            let texts = self.texts[start..<entry.end].dropLast().split(separator: 0, omittingEmptySubsequences: false)
                .map { String(decoding: $0, as: UTF8.self) }
            start = entry.end
            let key = DeviceKey(userID: entry.userID, deviceID: texts[0], pushType: entry.pushType)
            let change = DeviceChange(
                key: key,
                pushToken: texts[1],
                isWithdrawn: entry.isWithdrawn,
                changedAt: entry.changedAt
            )
            guard !entry.isWithdrawn else { return KnownDevices.Known(change: change, registration: nil) }
            func optional(_ index: Int) -> String? { texts[index].isEmpty ? nil : texts[index] }
            let registration = DeviceRegistration(
                key: key,
                pushToken: texts[1],
                locale: optional(2),
                timezone: optional(3),
                appVersion: optional(4),
                tags: Array(texts[6...]),
                authorizedAt: entry.authorizedAt,
                keyName: optional(5)
            )
            return KnownDevices.Known(change: change, registration: registration)
        }
    }
}

extension LoopValue<KnownDevices>.Copy {
    /// Records what a registration has changed. Called on the loop only.
    func record(_ changes: [DeviceChange], of registration: DeviceRegistration) {
        change { known in
            for change in changes { known.record(change, change.isWithdrawn ? nil : registration) }
        }
    }

    /// Records a withdrawal. Called on the loop only.
    func record(_ withdrawal: DeviceChange) {
        change { $0.record(withdrawal, nil) }
    }
}
