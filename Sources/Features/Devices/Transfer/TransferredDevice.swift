import Endpoints
import FoundationEssentials
import JSON
import KakaoAPI
import Schemas

/// A device in an import or an export.
struct TransferredDevice: Sendable {
    /// The time at which the token expires at Kakao.
    enum Expiry: Equatable, Sendable {
        case date(Date)
        case never
    }

    /// The columns of a line, in the order in which they are written.
    enum Column: String, CaseIterable, Sendable {
        case userID = "user_id"
        case deviceID = "device_id"
        case pushType = "push_type"
        case pushToken = "push_token"
        case locale
        case timezone
        case appVersion = "app_version"
        case tags
        case createdAt = "created_at"
        case updatedAt = "updated_at"
        case expiresAt = "expires_at"

        static let required: [Column] = [.userID, .deviceID, .pushType, .pushToken]
        static let names = allCases.map(\.rawValue).joined(separator: ", ")
    }

    /// The separator of tags in CSV. No tag contains it, since a text of a device may not have control characters.
    static let tagSeparator = "\t"

    let registration: DeviceRegistration
    /// When the device was first registered; `nil` if the line does not say.
    var createdAt: Date?
    /// When its app last registered the device; `nil` if the line does not say.
    var updatedAt: Date?
    /// The expiry at Kakao; `nil` if Kakao does not have the token yet, so that it must be registered.
    var expiry: Expiry?
}

/// The fault of a line, in words that quote nothing of the line.
struct LineFault: Error {
    let reason: String

    init(_ reason: String) {
        self.reason = reason
    }

    /// - Parameter allowed: The allowed values, as they read after "must be".
    init(_ column: TransferredDevice.Column, _ allowed: String) {
        reason = "\(column.rawValue) must be \(allowed)"
    }
}

// MARK: Reading

extension TransferredDevice {
    /// A value of a line.
    enum Value {
        case text(String)
        case json(JSONValue)

        fileprivate var text: String? {
            switch self {
            case .text(let text): text
            case .json(let value): value.string
            }
        }
    }

    /// The tolerated lead of another system's clock, in seconds.
    private static let clockTolerance = 300.0

    /// Creates a device from a line, by the rules of a single registration.
    ///
    /// - Parameters:
    ///   - now: The present time. Later times of creation and registration are invalid.
    ///   - value: Returns the value of a column, if the line has one.
    init(now: Date, _ value: (Column) -> Value?) throws(LineFault) {
        func text(_ column: Column, _ length: ClosedRange<Int>) throws(LineFault) -> String? {
            guard let value = value(column) else { return nil }
            guard let text = value.text, Text.isValid(text, length) else {
                throw LineFault(column, Text.allowed(length))
            }
            return text
        }
        func required(_ column: Column, _ length: ClosedRange<Int>) throws(LineFault) -> String {
            guard let text = try text(column, length) else { throw LineFault(column, Text.allowed(length)) }
            return text
        }
        func past(_ column: Column) throws(LineFault) -> Date? {
            guard let value = value(column) else { return nil }
            guard let date = Self.date(value), date.timeIntervalSince(now) <= Self.clockTolerance else {
                throw LineFault(column, "a time such as 2026-11-21T08:15:30Z that is not in the future")
            }
            return date
        }
        registration = DeviceRegistration(
            key: DeviceKey(
                userID: try Self.userID(value(.userID)),
                deviceID: try required(.deviceID, 1...64),
                pushType: try Self.pushType(value(.pushType))
            ),
            pushToken: try required(.pushToken, 1...4096),
            locale: try text(.locale, 1...35),
            timezone: try text(.timezone, 1...64),
            appVersion: try text(.appVersion, 1...64),
            tags: try Self.tags(value(.tags))
        )
        createdAt = try past(.createdAt)
        updatedAt = try past(.updatedAt)
        expiry = try Self.expiry(value(.expiresAt))
    }

    private static func userID(_ value: Value?) throws(LineFault) -> Int64 {
        let number: Int64? =
            switch value {
            case .text(let text), .json(.string(let text)): Int64(decimal: text)
            case .json(let value): value.integer
            case nil: nil
            }
        guard let number, number > 0 else { throw LineFault(.userID, "an integer from 1 to 9223372036854775807") }
        return number
    }

    private static func pushType(_ value: Value?) throws(LineFault) -> PushType {
        // The names of both versions of Kakao's API are accepted.
        for version in PushVersion.allCases {
            if let type = value?.text.flatMap({ PushType(name: $0, version: version) }) { return type }
        }
        throw LineFault(.pushType, "apns, fcm or gcm")
    }

    /// The most tags: 50 of an app, and the one of ``ChannelTag``, which an export contains.
    private static let maximumTags = 51

    private static func tags(_ value: Value?) throws(LineFault) -> [String] {
        let tags: [String]?
        switch value {
        case nil:
            return []
        case .json(let value):
            tags = Text.all(in: value, count: 0...maximumTags, length: 1...64)
        case .text(let text):
            let values = text.split(separator: tagSeparator, omittingEmptySubsequences: false).map {
                JSONValue.string(String($0))
            }
            tags = Text.all(in: .array(values), count: 0...maximumTags, length: 1...64)
        }
        guard let tags else {
            throw LineFault(
                .tags,
                "at most \(maximumTags) texts of 1 to 64 characters: an array in NDJSON, separated by a tab in CSV"
            )
        }
        return tags
    }

    private static func expiry(_ value: Value?) throws(LineFault) -> Expiry? {
        guard let value else { return nil }
        if value.text == "never" { return .never }
        guard let date = date(value) else {
            throw LineFault(.expiresAt, "never, or a time such as 2026-11-21T08:15:30Z")
        }
        return .date(date)
    }

    private static func date(_ value: Value) -> Date? {
        guard let text = value.text, text.utf8.count <= 40 else { return nil }
        return Date(rfc3339: text)
    }
}

// MARK: Writing

extension TransferredDevice {
    /// Appends a line from which this device can be parsed again.
    func write(_ format: TransferFormat, to bytes: inout [UInt8]) {
        switch format {
        case .ndjson:
            var json = JSONWriter()
            json.object { json in
                for column in Column.allCases {
                    if column == .tags {
                        if !registration.tags.isEmpty { json.member(column.rawValue, registration.tags) }
                    } else if let text = text(column) {
                        json.member(column.rawValue, text)
                    }
                }
            }
            json.newline()
            bytes += json.bytes
        case .csv:
            CSVLine.write(Column.allCases.map { text($0) ?? "" }, to: &bytes)
        }
    }

    /// Appends the header line, if the format is CSV.
    static func writeHeader(_ format: TransferFormat, to bytes: inout [UInt8]) {
        guard format == .csv else { return }
        CSVLine.write(Column.allCases.map(\.rawValue), to: &bytes)
    }

    private func text(_ column: Column) -> String? {
        switch column {
        case .userID: String(registration.key.userID)
        case .deviceID: registration.key.deviceID
        case .pushType: registration.key.pushType.storedName
        case .pushToken: registration.pushToken
        case .locale: registration.locale
        case .timezone: registration.timezone
        case .appVersion: registration.appVersion
        case .tags: registration.tags.isEmpty ? nil : registration.tags.joined(separator: Self.tagSeparator)
        case .createdAt: createdAt?.rfc3339Microseconds
        case .updatedAt: updatedAt?.rfc3339Microseconds
        case .expiresAt:
            switch expiry {
            case .date(let date): date.rfc3339Microseconds
            case .never: "never"
            case nil: nil
            }
        }
    }
}
