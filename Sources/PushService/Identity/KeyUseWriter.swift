internal import EventLoop
internal import Logging

/// A background writer of the times when operator keys were last used: at most once a minute, all keys in one
/// statement.
actor KeyUseWriter {
    private static let interval = Duration.seconds(60)

    nonisolated let unownedExecutor: UnownedSerialExecutor
    private let keys: OperatorKeys
    private let store: OperatorKeyStore
    private let logger: Logger
    private let signal: Signal
    private var isStopping = false

    /// - Parameter store: The store of `loop`.
    init(loop: EventLoop, keys: OperatorKeys, store: OperatorKeyStore, logger: Logger) {
        unownedExecutor = loop.asUnownedSerialExecutor()
        self.keys = keys
        self.store = store
        self.logger = logger
        signal = Signal(loop: loop)
    }

    /// Runs until it is stopped, then writes the remaining uses.
    func run() async {
        while true {
            await signal.wait(atMost: Self.interval)
            let isLast = isStopping
            await write()
            if isLast { return }
        }
    }

    /// Makes ``run()`` write the remaining uses and return.
    func stop() {
        isStopping = true
        signal.send()
    }

    private func write() async {
        let uses = keys.takeUses()
        guard !uses.isEmpty else { return }
        do {
            try await store.recordUses(uses)
        } catch {
            keys.putBack(uses)
            logger.warning("Last use of operator keys not recorded", metadata: ["error": "\(error)"])
        }
    }
}
