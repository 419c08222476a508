package import JSON

/// The result of one send for one device of a user, or for the user alone if there was no device.
package struct Delivery: Sendable {
    /// The result of a delivery.
    package enum Outcome: String, Sendable, CaseIterable {
        /// The device would have shown the message.
        case delivered
        /// The token is set to fail.
        case failed
        /// The user has no device.
        case noDevice = "no_device"
        /// The message has no part for the device's platform.
        case noMessage = "no_message"
        /// The message has `dry_run`.
        case dryRun = "dry_run"
    }

    /// The number of the delivery, counted from 1 in the order of delivery, without gaps.
    package let sequence: Int
    /// The number of the send that the delivery belongs to, counted from 1.
    package let send: Int
    /// The time in Unix milliseconds.
    package let deliveredAt: Int64
    package let userID: Int64
    package let outcome: Outcome
    /// `apns`, `gcm` or `fcm`, as in the send's API version; `nil` without a device.
    package let pushType: String?
    /// The device id; `nil` without a device, or if the message carries its own token (`bypass`).
    package let deviceID: String?
    package let pushToken: String?
    /// `for_apns`, `for_gcm` or `for_fcm` of the send, as compact JSON.
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
