/// A setting that is missing, unknown or wrong: the server does not start with it.
package struct SettingsError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Where it stands: `config/push-server.yaml:7`, `HTTP_PORT in the environment`.
    package let place: String
    /// What is wrong with it and what is allowed. Never holds the value of a secret.
    package let message: String

    package init(place: String, message: String) {
        self.place = place
        self.message = message
    }

    package var description: String { "\(place): \(message)" }
}
