import Accounts
import ArgumentParser
import Server
import Settings

extension AccountsCommand {
    struct RotateKey: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Encrypt the tokens of all users under accounts.encryption_key.",
            discussion: """
                Run it while the servers run, after the new key is accounts.encryption_key and the old one is in \
                accounts.decryption_keys on every server. The old key can be removed if the exit code is 0. Exit code 1: the tokens of \
                some users are still encrypted under another key.
                """
        )

        /// The interval between two lines of progress.
        private static let interval = Duration.seconds(1)
        /// The maximum number of users in a message.
        private static let shownUsers = 20

        @OptionGroup var options: SettingsOptions

        @concurrent
        func run() async throws {
            try await options.withDatabase { settings, pool in
                let rotation = try KeyRotation(pool: pool, settings.accounts, appID: settings.kakao.appID)
                var shownAt = ContinuousClock.now
                let first = try await rotation.run { progress in
                    guard ContinuousClock.now - shownAt >= Self.interval else { return }
                    shownAt = .now
                    Terminal.writeLine("\(Text.grouped(Int64(progress.changed))) accounts so far")
                }
                Terminal.writeLine("Encrypted the tokens of \(Self.accounts(first.changed)) under the current key.")
                // Servers with the current key leave nothing to the second pass.
                let second = try await rotation.run { _ in }
                for problem in Self.problems(second) { Terminal.writeError("push-server: \(problem)") }
                guard second.changed == 0, second.unreadable.isEmpty else { throw ExitCode.failure }
            }
        }

        private static func problems(_ result: KeyRotation.Result) -> [String] {
            var problems: [String] = []
            if result.changed > 0 {
                problems.append(
                    """
                    A server has meanwhile encrypted the tokens of \(accounts(result.changed)) under another key. Make the new key \
                    accounts.encryption_key on every server, restart them, and run this command again.
                    """
                )
            }
            if !result.unreadable.isEmpty {
                let shown = result.unreadable.prefix(shownUsers).map(String.init).joined(separator: ", ")
                let rest = result.unreadable.count > shownUsers ? " and others" : ""
                problems.append(
                    """
                    The tokens of \(accounts(result.unreadable.count)) cannot be decrypted and were not changed: users \(shown)\(rest). \
                    Add the key that encrypted them to accounts.decryption_keys and run this command again. Without it, these users must \
                    log in again.
                    """
                )
            }
            return problems
        }

        private static func accounts(_ count: Int) -> String {
            count == 1 ? "1 account" : "\(Text.grouped(Int64(count))) accounts"
        }
    }
}
