import EventLoop
import Locking
import Logging
import Postgres
import Runtime
import Synchronization

/// The notifications that there is something to deliver: within this server if it delivers, otherwise, by `NOTIFY`, to the one that
/// does.
final class WebhookNotices: Sendable {
    /// What a notification between servers is about, besides the sources.
    enum Subject: String, CaseIterable {
        /// The endpoint may be free, or its stored state has changed.
        case endpoint
        /// A webhook that was set aside is due.
        case failures
        case replays
    }

    /// The minimum time between two notifications to other servers.
    private static let interval = Duration.milliseconds(100)

    /// Wake the workers, by what they deliver.
    private let signals: [String: Signal]
    private let deliversHere = Atomic<Bool>(false)
    /// The sources with changes that the server that delivers has yet to be notified of.
    private let changed = Locked<Set<String>>([])
    private let sources: [WebhookSource]
    private let store: WebhookStore
    /// Wakes the worker that notifies other servers.
    private let notifying: Signal

    init(_ sources: [WebhookSource], store: WebhookStore) {
        self.sources = sources
        self.store = store
        let names = sources.map(\.name) + Subject.allCases.map(\.rawValue)
        signals = Dictionary(uniqueKeysWithValues: names.map { ($0, Signal(loop: store.pool.loop)) })
        notifying = Signal(loop: store.pool.loop)
        for source in sources { source.onChange { [weak self] in self?.record(source.name) } }
    }

    /// The signal that wakes a worker.
    func signal(_ name: String) -> Signal {
        guard let signal = signals[name] else { preconditionFailure("each source and each subject has a signal") }
        return signal
    }

    func signal(_ subject: Subject) -> Signal { signal(subject.rawValue) }

    /// Records whether this server delivers. If it begins to, all workers look for work.
    func setDelivering(_ delivers: Bool) {
        deliversHere.store(delivers, ordering: .sequentiallyConsistent)
        if delivers { wakeAll() }
    }

    /// Handles a notification of another server, or of this one, or a new connection to PostgreSQL, before which notifications may
    /// have been missed.
    func receive(_ event: PostgresListener.Event) {
        switch event {
        case .listening: wakeAll()
        case .notification(let channel, let name):
            if channel == WebhookStore.channel { wake(name) }
        }
    }

    private func wakeAll() {
        for name in signals.keys { wake(name) }
    }

    private func wake(_ name: String) {
        if let source = sources.first(where: { $0.name == name }) {
            // Only the server that delivers acts on it.
            if deliversHere.load(ordering: .sequentiallyConsistent) { source.changed() }
        } else {
            signals[name]?.send()
        }
    }

    private func record(_ name: String) {
        guard !deliversHere.load(ordering: .sequentiallyConsistent) else { return signal(name).send() }
        changed.withLock { _ = $0.insert(name) }
        notifying.send()
    }

    /// Returns the worker that notifies the server that delivers. It finds what it is not notified of by itself, within a minute.
    func worker(logger: Logger) -> BackgroundWorker {
        BackgroundWorker(
            "notify-webhooks",
            on: store.pool.loop,
            every: .seconds(3600),
            firstAfter: .seconds(3600),
            signal: notifying,
            pace: nil,
            failure: "Other servers not notified of webhooks",
            logger: logger
        ) { [store, sources, changed] worker in
            let names = changed.withLock { names in
                defer { names = [] }
                return names
            }
            for source in sources where names.contains(source.name) {
                source.expectChange()
                try? await store.notify(source.name)
            }
            try? await worker.loop.sleep(for: Self.interval)
            return nil
        }
    }
}
