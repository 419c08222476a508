import EventLoop
import KakaoAPI
import Locking
import Logging
package import Runtime
import Settings

/// The times of the list of Kakao's addresses. Tests shorten them.
package struct AddressTimes: Sendable {
    /// The time between two fetches.
    package var refresh = Duration.seconds(6 * 3600)
    /// The delay after a fetch that failed.
    package var retry = RetryDelay(first: .seconds(5 * 60), longest: .seconds(6 * 3600))
    /// The age from which on the list refuses no call.
    package var maximumAge = Duration.seconds(7 * 86_400)

    package init() {}
}

/// A background worker that fetches Kakao's addresses once the server is ready and then every six hours, unless `kakao.source_addresses` is
/// `off`. A list that cannot be read or fetched leaves the one before.
final class KakaoAddressFetcher: Sendable {
    /// Kakao's answer has no readable address.
    private struct UnreadableList: Error, CustomStringConvertible {
        let description = "Kakao's list has no readable address, or more than 1,000"
    }

    private struct State {
        /// The failures since the last success.
        var failures = 0
        /// When the addresses are fetched next; `nil` for at once.
        var nextFetch: MonotonicTime?
    }

    private let list: LoopValue<FetchedAddresses?>
    private let policy: @Sendable () -> SourceAddressPolicy
    private let times: AddressTimes
    private let kakao: KakaoClient
    private let loop: EventLoop
    private let logger: Logger
    private let signal: Signal
    private let state = Locked(State())

    /// - Parameters:
    ///   - list: The addresses of all loops.
    ///   - policy: Returns the setting `kakao.source_addresses` at present.
    init(
        _ list: LoopValue<FetchedAddresses?>,
        policy: @escaping @Sendable () -> SourceAddressPolicy,
        times: AddressTimes,
        on services: LoopServices,
        logger: Logger
    ) {
        self.list = list
        self.policy = policy
        self.times = times
        kakao = services.kakao(.background)
        loop = services.loop
        self.logger = logger
        signal = Signal(loop: services.loop)
    }

    /// Wakes the worker, because the settings may have changed: also the key, with which a fetch may succeed that has failed.
    func settingsMayHaveChanged() {
        state.withLock { if $0.failures > 0 { $0.nextFetch = nil } }
        signal.send()
    }

    func worker() -> BackgroundWorker {
        BackgroundWorker(
            "fetch-kakao-addresses",
            on: loop,
            every: times.refresh,
            signal: signal,
            pace: nil,
            failure: "Kakao's addresses not fetched",
            logger: logger
        ) { await self.fetchIfDue($0) }
    }

    /// Fetches the addresses if it is time. Returns the time until the next fetch.
    private func fetchIfDue(_ worker: BackgroundWorker) async -> Duration? {
        guard policy() != .off else {
            await list.replace(by: nil)
            state.withLock { $0 = State() }
            return nil
        }
        let start = MonotonicTime.now
        if let next = state.withLock({ $0.nextFetch }), next > start { return next - start }
        do {
            let answer = try await kakao.call(RetrieveAddresses(direction: .inbound))
            guard let addresses = KakaoAddresses(answer) else { throw UnreadableList() }
            await list.replace(by: FetchedAddresses(addresses, fetchedAt: start))
            state.withLock { $0 = State(nextFetch: start + times.refresh) }
            logger.debug(
                "Kakao's addresses fetched",
                metadata: ["networks": "\(addresses.count)", "unreadable": "\(addresses.unreadable)"]
            )
            return times.refresh
        } catch {
            guard !worker.isStopping else { return nil }
            let delay = state.withLock { state in
                state.failures += 1
                let delay = times.retry.after(state.failures)
                state.nextFetch = .now + delay
                return delay
            }
            logger.warning(
                "Kakao's addresses not fetched",
                metadata: ["error": "\(error)", "retry_seconds": "\(delay.components.seconds)"]
            )
            return delay
        }
    }
}
