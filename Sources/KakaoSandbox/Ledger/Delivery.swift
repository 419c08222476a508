package import JSON

/// What one device of one user got of one send; or the user alone, when there was no device.
package struct Delivery: Sendable {
    /// What became of it.
    package enum Outcome: String, Sendable, CaseIterable {
        /// It would have been shown.
        case delivered
        /// The token is one that was told to fail.
        case failed
        /// The user has no device: there is nothing to deliver to.
        case noDevice = "no_device"
        /// The message has no part for the device's platform.
        case noMessage = "no_message"
        /// The message said `dry_run`.
        case dryRun = "dry_run"
    }

    /// Counted from 1 in the order of delivery, without gaps.
    package let sequence: Int
    /// The send that it belongs to, counted from 1.
    package let send: Int
    /// Unix milliseconds.
    package let deliveredAt: Int64
    package let userID: Int64
    package let outcome: Outcome
    /// `apns`, `gcm` or `fcm`, as the send's version calls it; `nil` without a device.
    package let pushType: String?
    /// `nil` when the caller keeps tokens itself (`bypass`).
    package let deviceID: String?
    package let pushToken: String?
    /// `for_apns`, `for_gcm` or `for_fcm` as the send had it, compact JSON.
    package let payload: [UInt8]?
}

extension Delivery: JSONWritable {
    package func write(to writer: inout JSONWriter) {
        writer.object {
            $0.member("sequence", sequence)
            $0.member("send", send)
            $0.member("delivered_at", WallClock.text(unixMilliseconds: deliveredAt))
            $0.member("user_id", String(userID))
            $0.member("outcome", outcome.rawValue)
            $0.member("push_type", pushType)
            $0.member("device_id", deviceID)
            $0.member("push_token", pushToken)
            $0.member("payload", payload.map { JSONFragment($0) })
        }
    }
}
