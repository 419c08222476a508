internal import EventLoop
internal import HTTPServer
internal import KakaoAPI
internal import Postgres

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
}

extension DeviceRegistration {
    /// Reads a registration from a request.
    ///
    /// - Throws: ``Problem`` for a missing or invalid field.
    init(_ parameters: Parameters, _ key: DeviceKey, _ caller: DeviceCaller) throws {
        self.init(
            key: key,
            pushToken: try parameters.text("push_token", length: 1...4096),
            locale: try parameters.optionalText("locale", length: 1...35),
            timezone: try parameters.optionalText("timezone", length: 1...64),
            appVersion: try parameters.optionalText("app_version", length: 1...64),
            tags: try parameters.texts("tags", count: 50, length: 1...64),
            authorizedAt: caller.authorizedAt
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
