import ArgumentParser
import FoundationEssentials

/// The key of a request that is carried out once, however often it is repeated.
struct IdempotencyOptions: ParsableArguments {
    @Option(help: "A key for retries: a repeated request with the same key is executed once. (default: a new key)")
    var idempotencyKey: String?

    func validate() throws {
        let key = idempotencyKey ?? "-"
        guard (1...255).contains(key.utf8.count), key.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw ValidationError("--idempotency-key must be 1 to 255 visible ASCII characters.")
        }
    }

    /// Returns the given key, or a new one.
    func key() -> String { idempotencyKey ?? UUID().uuidString.lowercased() }

    /// Prints how to repeat a request that the server may have carried out.
    static func adviseRetry(after error: any Error, key: String) {
        guard let failure = error as? CallFailure, failure.kind != .refused else { return }
        Terminal.writeError("To retry without sending twice, repeat the command with --idempotency-key \(key)")
    }
}
