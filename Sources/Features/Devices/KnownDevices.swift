import EventLoop
import FoundationEssentials
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

    /// About 30 MB when full: a registration has a token of up to some hundred bytes.
    private var devices = RecentValues<DeviceKey, Known>(maximum: 50_000)

    fileprivate mutating func record(_ change: DeviceChange, _ registration: DeviceRegistration?) {
        devices.store(Known(change: change, registration: registration), for: change.key)
    }

    /// Returns what several loops know, the latest change of each device, in the order of the changes.
    static func merged(_ all: [KnownDevices]) -> [Known] {
        var merged: [DeviceKey: Known] = [:]
        for known in all {
            merged.merge(known.devices.all) { $0.change.changedAt > $1.change.changedAt ? $0 : $1 }
        }
        return merged.values.sorted { $0.change.changedAt < $1.change.changedAt }
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
