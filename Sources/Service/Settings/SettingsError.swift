/// A setting that is missing, unknown or invalid. The server does not start with it.
package struct SettingsError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The place of the setting, such as `config/push-server.yaml:7` or `HTTP_PORT in the environment`.
    package let place: String
    /// The problem and the allowed values. Never contains the value of a secret.
    package let message: String

    package init(place: String, message: String) {
        self.place = place
        self.message = message
    }

    /// Whether the setting was found neither in a file nor in the environment.
    package var isOfMissingSetting: Bool { place.hasSuffix(Self.missing) }

    /// The end of the place of a setting that was found nowhere.
    static let missing = " in the environment)"

    package var description: String { "\(place): \(message)" }
}
