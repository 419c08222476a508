import ServiceLifecycle

/// Runs a ``QueueRunner``. The feature gives the call and not the runner, so that the runner is compiled for the feature's types.
package struct QueueService: Service {
    private let runQueue: @Sendable () async -> Void

    package init(_ runQueue: @escaping @Sendable () async -> Void) {
        self.runQueue = runQueue
    }

    package func run() async { await runQueue() }
}
