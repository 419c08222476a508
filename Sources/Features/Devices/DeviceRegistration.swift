import Endpoints
import EventLoop
import Identity
import JSON
import KakaoAPI
import Postgres
import Schemas

/// A device as its app describes it.
struct DeviceRegistration: Sendable {
    let key: DeviceKey
    let pushToken: String
    var locale: String?
    var timezone: String?
    var appVersion: String?
    var tags: [String] = []
    /// The time at which the access token of the app's user was verified; `nil` for a registration by an operator. A
    /// user who has unlinked the app since then cannot register.
    var authorizedAt: MonotonicTime?
    /// The name of the operator key; `nil` for a registration by the app.
    var keyName: String?
}

extension DeviceRegistration {
    /// The fields of a request that describe the device.
    static let fields: [any FieldDeclaration] = [pushToken, locale, timezone, appVersion, tags]

    private static let pushToken = Field.required(
        "push_token",
        .text(1...4096),
        "The token that the app received from APNs or FCM."
    )
    private static let locale = Field.optional("locale", .text(1...35), "The app's language, such as ko-KR.")
    private static let timezone = Field.optional("timezone", .text(1...64), "The time zone, such as Asia/Seoul.")
    private static let appVersion = Field.optional("app_version", .text(1...64), "The app's version.")
    private static let tags = Field.optional(
        "tags",
        .texts(count: 0...50, length: 1...64),
        default: [],
        shown: [],
        "Tags by which a push can choose devices."
    )

    /// Reads a registration from a request.
    ///
    /// - Throws: ``Problem`` for a missing or invalid field.
    init(_ call: Call, _ key: DeviceKey) throws {
        self.init(
            key: key,
            pushToken: try call[Self.pushToken],
            locale: try call[Self.locale],
            timezone: try call[Self.timezone],
            appVersion: try call[Self.appVersion],
            tags: try call[Self.tags],
            authorizedAt: call.caller.authorizedAt,
            keyName: call.caller.keyName
        )
    }
}

extension DeviceRegistration {
    /// Returns an array of values for each column that the app describes.
    static func columns(_ registrations: [DeviceRegistration]) -> [PostgresValue] {
        [
            .int64s(registrations.map(\.key.userID)),
            .texts(registrations.map(\.key.deviceID)),
            .pushTypes(registrations.map(\.key.pushType)),
            .texts(registrations.map(\.pushToken)),
            .texts(registrations.map(\.locale)),
            .texts(registrations.map(\.timezone)),
            .texts(registrations.map(\.appVersion)),
            .textArrayLiterals(registrations.map(\.tags)),
        ]
    }

    /// Returns the time since each authorization in seconds, or NULL for registrations by operators.
    ///
    /// The times are relative because servers share no clock other than the database's.
    static func ages(_ registrations: [DeviceRegistration]) -> PostgresValue {
        let now = MonotonicTime.now
        return .float64s(registrations.map { $0.authorizedAt?.seconds(to: now) })
    }
}
