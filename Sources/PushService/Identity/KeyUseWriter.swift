internal import EventLoop
internal import Logging

/// Writes down when operators' keys were last used, in the background: each at most once a minute, and all in one statement.
actor KeyUseWriter {
    private static let interval = Duration.seconds(60)

    nonisolated let unownedExecutor: UnownedSerialExecutor
    private let keys: OperatorKeys
    private let store: OperatorKeyStore
    private let logger: Logger
    private let signal: Signal
    private var isStopping = false

    /// - Parameter store: Of `loop`.
    init(loop: EventLoop, keys: OperatorKeys, store: OperatorKeyStore, logger: Logger) {
        unownedExecutor = loop.asUnownedSerialExecutor()
        self.keys = keys
        self.store = store
        self.logger = logger
        signal = Signal(loop: loop)
    }

    /// Works until it is stopped, and then writes the rest.
    func run() async {
        while true {
            await signal.wait(atMost: Self.interval)
            let isLast = isStopping
            await write()
            if isLast { return }
        }
    }

    /// Has ``run()`` write what is left and end.
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
            logger.warning("The last use of keys could not be written", metadata: ["error": "\(error)"])
        }
    }
}
