import FoundationEssentials
import HTTPServer
import Server
import Settings

/// The settings of a development server: those of the environment and the settings file, with those of its own keys,
/// database and sandbox.
struct DevSettings: Sendable {
    let options: SettingsOptions
    /// The absolute path of the folder.
    let directory: String
    /// The address to listen on. It is not that of the environment, which may be the shell of an earlier run that was open to the
    /// network.
    let host: String
    let port: UInt16?

    /// Returns the environment variables of all settings that do not come from the settings file.
    ///
    /// - Parameters:
    ///   - databaseURL: The database, which listens nowhere before it has started.
    ///   - sandboxURL: The address of the sandbox, which is unknown before it has started.
    ///   - certificateFile: The file of its certificate.
    func variables(
        _ keys: DevKeys,
        databaseURL: String = "postgresql:///postgres",
        sandboxURL: String = "https://127.0.0.1",
        certificateFile: String? = nil
    ) -> [String: String] {
        // With the sandbox's app and its keys, the server accepts tokens of users who log in there, and its account
        // events. The sandbox knows no others.
        var fixed = [
            "DATABASE_URL": databaseURL,
            "OPERATOR_KEY": keys.operatorKey,
            "FEEDBACK_SECRET": keys.feedbackSecret,
            "ACCOUNTS_ENCRYPTION_KEY": keys.encryptionKey,
            "JOURNAL_DIRECTORY": "\(directory)/journal",
            "KAKAO_ADMIN_KEY": keys.adminKey,
            "KAKAO_API_URL": sandboxURL,
            "KAKAO_AUTH_URL": sandboxURL,
            "KAKAO_APP_ID": "123456",
            "KAKAO_NATIVE_APP_KEY": "sandbox-native-app-key",
            "KAKAO_JAVASCRIPT_KEY": "sandbox-javascript-key",
            "KAKAO_REST_API_KEY": "sandbox-rest-api-key",
            "KAKAO_CLIENT_SECRET": "sandbox-client-secret",
        ]
        if let certificateFile { fixed["KAKAO_CA_CERTIFICATE_FILE"] = certificateFile }
        let defaults = [
            "HTTP_DRAIN_SECONDS": "0",
            "LOGIN_RETURN_URLS": "http://localhost:3000/login/done",
            // The page writes the title there, for an app that shows its notifications itself.
            "PUSHES_ADVERTISING_TEXT": "title",
            "SHARING_APP_KEY_CALLS": "true",
            "SHARING_KA_HEADER": "sdk/2.27.3 os/ios-17.0 origin/com.example.app",
            "SHARING_SIGNING_KEY": keys.signingKey,
            "STORY_ENABLED": "true",
            "IDENTITY_EXPLAIN_REJECTIONS": "true",
        ]
        let names = Set(Settings.environmentNames)
        var variables = defaults.merging(Self.environment.filter { names.contains($0.key) }) { $1 }
        variables.merge(fixed) { $1 }
        variables["HTTP_HOST"] = host
        if let port { variables["HTTP_PORT"] = String(port) }
        return variables
    }

    /// Reads the settings.
    ///
    /// - Throws: ``SettingsError`` if one of the environment or of the settings file is unknown or invalid.
    func read(_ variables: [String: String]) throws -> Settings {
        var settings = try options.ofDevelopment.load(environment: variables)
        settings.publicURL = settings.publicURL ?? .own(host: DevHost(settings.http.host).inURL)
        return settings
    }

    /// The environment of this process, without the address of an earlier run that its file set in this shell.
    private static var environment: [String: String] {
        let environment = ProcessInfo.processInfo.environment
        let isOfEarlierRun = environment["HTTP_PUBLIC_URL"] == environment["LOCAL_URL"]
        return isOfEarlierRun ? environment.filter { $0.key != "HTTP_PUBLIC_URL" } : environment
    }
}
