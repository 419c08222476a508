internal import CLinux
internal import DequeModule
package import Dispatch
internal import Glibc
internal import Locking
internal import Synchronization

/// A loop that waits for sockets, timers and jobs, and runs all of them on one thread.
///
/// A loop is one block on a serial Dispatch queue of its own; beneath it is epoll, and not `DispatchSource`
/// (`docs/decisions/0001-epoll-beneath-dispatch.md`). It is a Swift executor in both senses. As a `TaskExecutor` it runs the
/// tasks that prefer it (`Task(executorPreference: loop)`); as a `SerialExecutor` it isolates the actors that name it, so that
/// whatever lives on a loop is confined to it by the compiler or by ``preconditionOnLoop()``, never by a comment.
///
/// One tick, in this order: events, jobs, end-of-tick hooks, timers. Hooks are where output that was gathered during the tick
/// leaves in one system call. The work of one tick is bounded, so that no source of it starves another. Nothing that runs on a
/// loop may block: host names, `PQcancel` and certificate files go to ``blocking``.
///
/// A timer fires only after every event that happened before its deadline was handled, however long the process was stopped in
/// between: a response that arrived in time cancels its time-out.
package final class EventLoop: TaskExecutor, SerialExecutor, @unchecked Sendable {
    // Who owns what: `inbox` is shared and locked. `thread` is written once, before the loop takes its first job. Everything
    // else is touched by the loop's own thread only, which every method that touches it checks.

    /// What other threads hand to the loop.
    private struct Inbox {
        var jobs: [UnownedJob] = []
        var closures: [@Sendable () -> Void] = []
        /// The eventfd has been written and not yet been read: only the first to enqueue pays for the system call.
        var isWoken = false
        var isStopping = false
        /// Nothing is taken any more, and nobody will look.
        var hasEnded = false
    }

    private static let eventsPerTick = 256
    /// Jobs that run in one tick before sockets are looked at again.
    private static let jobsPerTick = 1024
    /// Depth of the chains of jobs that run before a timer: from the event that resumes a task to the cancellation of its time-out,
    /// with several jobs for each function on the way.
    private static let generationsBeforeTimers = 64
    /// How often an ending loop looks for something left; whoever goes on giving it work does not keep it.
    private static let lastRounds = 100
    /// Told apart from every registration: no table reaches this slot.
    private static let wakeTag = UInt64.max

    /// For calls that block: bounded by Dispatch, off every loop.
    package static let blocking = DispatchQueue(label: "blocking", attributes: .concurrent)

    package let label: String
    private let epoll: FileDescriptor
    private let wake: FileDescriptor
    private let queue: DispatchQueue
    private let inbox = Locked(Inbox())
    private let finished = DispatchGroup()
    private let thread = Atomic<UInt>(0)

    private var registrations = RegistrationTable()
    private var jobs = Deque<UnownedJob>()
    private var hooks: [EndOfTickHook] = []
    /// Something was done after the hooks of this tick that they have to see.
    private var mustNotSleep = false
    /// The eventfd has spoken in this tick: only then is there something in the inbox, and only then is it locked.
    private var isCalled = false
    private var timers: TimerWheel<() -> Void>

    /// The time in milliseconds, read once a tick. See ``milliseconds()``.
    package private(set) var now: UInt64

    /// Scratch for reading sockets: shared by everything on the loop, valid until whoever reads returns.
    package let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 * 1024, alignment: 16)

    /// A loop that is not yet running: see ``start()``.
    ///
    /// - Throws: ``SystemError`` when the process has no descriptor left.
    package init(label: String) throws {
        self.label = label
        let epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard epoll >= 0 else { throw SystemError(call: "epoll_create1") }
        self.epoll = FileDescriptor(owning: epoll)
        let wake = eventfd(0, Int32(EFD_NONBLOCK | EFD_CLOEXEC))
        guard wake >= 0 else { throw SystemError(call: "eventfd") }
        self.wake = FileDescriptor(owning: wake)
        queue = DispatchQueue(label: label, qos: .userInitiated)
        now = Self.milliseconds()
        timers = TimerWheel(start: now)
        var event = clinux_epoll_event(EPOLLIN.rawValue, Self.wakeTag)
        guard epoll_ctl(epoll, EPOLL_CTL_ADD, wake, &event) == 0 else { throw SystemError(call: "epoll_ctl") }
    }

    deinit {
        scratch.deallocate()
    }

    // MARK: Life

    /// Starts the loop's one block on its queue.
    package func start() {
        queue.async(group: finished) { self.run() }
    }

    /// Lets the loop end after the tick in hand. What it has been given by then still runs; jobs that come later never do: stop what
    /// lives on a loop first.
    package func stop() {
        inbox.withLock { $0.isStopping = true }
        interrupt()
    }

    /// Waits until the loop has ended. Not to be called from a loop.
    package func join() {
        finished.wait()
    }

    private func run() {
        thread.store(UInt(pthread_self()), ordering: .releasing)
        var events = [epoll_event](repeating: epoll_event(), count: Self.eventsPerTick)
        while tick(&events) {}
        finish()
        thread.store(0, ordering: .releasing)
    }

    /// Runs what has been left, and lets go of everything: what is held here mostly holds the loop.
    private func finish() {
        var rounds = 0
        repeat {
            _ = takeInbox()
            runJobs()
            rounds += 1
        } while !end(unconditionally: rounds == Self.lastRounds)
        hooks = []
        jobs = []
        timers = TimerWheel(start: now)
        registrations = RegistrationTable()
    }

    /// Takes nothing any more from here on. Returns whether that is so: not while there is something left.
    private func end(unconditionally isLast: Bool) -> Bool {
        inbox.withLock { inbox in
            inbox.hasEnded = isLast || jobs.isEmpty && inbox.jobs.isEmpty && inbox.closures.isEmpty
            return inbox.hasEnded
        }
    }

    /// One turn. Returns whether there shall be another.
    private func tick(_ events: inout [epoll_event]) -> Bool {
        let ready = poll(&events, waitMilliseconds())
        now = Self.milliseconds()
        mustNotSleep = false
        for index in 0..<ready { dispatch(events[index]) }
        var isStopping = isCalled && takeInbox()
        runJobs()
        if let deadline = timers.nextDeadline, deadline <= now {
            dispatchEventsBeforeTimers(&events)
            if isCalled, takeInbox() { isStopping = true }
            runJobsBeforeTimers()
        }
        for hook in hooks where hook.isActive { hook.run() }
        let due = timers.advance(to: now)
        for id in due { timers.cancel(id)?() }
        // What a timer has left for the hooks must not wait for the next event.
        if !due.isEmpty { mustNotSleep = true }
        return !isStopping
    }

    /// Waits for events. Returns how many there are: none after `limit` milliseconds, or when a signal ended the wait.
    private func poll(_ events: inout [epoll_event], _ limit: Int32) -> Int {
        events.withUnsafeMutableBufferPointer {
            max(0, Int(epoll_wait(epoll.rawValue, $0.baseAddress, Int32($0.count), limit)))
        }
    }

    /// Dispatches the events that happened before ``now`` and were not reported yet.
    ///
    /// The poll of this tick may have missed them: it ended before the clock was read, and in between the process may have been
    /// stopped; a signal ends a poll without events; and one poll reports at most `eventsPerTick`. The kernel reports ready
    /// descriptors in turn, so that the number of registrations bounds the number of polls.
    private func dispatchEventsBeforeTimers(_ events: inout [epoll_event]) {
        for _ in 0...(registrations.count / Self.eventsPerTick) {
            let ready = poll(&events, 0)
            for index in 0..<ready { dispatch(events[index]) }
            if ready < Self.eventsPerTick { break }
        }
    }

    /// How long epoll may wait: not at all with jobs in hand or hooks to run, until the next timer otherwise, for ever without one.
    private func waitMilliseconds() -> Int32 {
        guard jobs.isEmpty, !mustNotSleep else { return 0 }
        guard let deadline = timers.nextDeadline else { return -1 }
        return Int32(clamping: deadline - min(deadline, Self.milliseconds()))
    }

    private func dispatch(_ event: epoll_event) {
        let tag = withUnsafePointer(to: event) { clinux_epoll_tag($0) }
        guard tag != Self.wakeTag else {
            var count: UInt64 = 0
            _ = read(wake.rawValue, &count, 8)
            isCalled = true
            return
        }
        // A slot of another generation: the descriptor was deregistered by a handler earlier in this tick.
        guard let slot = registrations[Registration(tag: tag)] else { return }
        slot.handler?(Readiness(rawValue: event.events))
    }

    /// Brings over what other threads have left. Returns whether the loop shall end.
    private func takeInbox() -> Bool {
        isCalled = false
        var closures: [@Sendable () -> Void] = []
        let isStopping = inbox.withLock { inbox in
            jobs.append(contentsOf: inbox.jobs)
            inbox.jobs.removeAll(keepingCapacity: true)
            swap(&closures, &inbox.closures)
            inbox.isWoken = false
            return inbox.isStopping
        }
        for closure in closures { closure() }
        return isStopping
    }

    /// Runs the jobs in hand, those that they enqueue, and so on: all that a response needs until it has cancelled its time-out,
    /// but not for ever with a task that always enqueues another job.
    private func runJobsBeforeTimers() {
        for _ in 0..<Self.generationsBeforeTimers where !jobs.isEmpty { runJobs(atMost: jobs.count) }
    }

    private func runJobs(atMost limit: Int = jobsPerTick) {
        var budget = limit
        while budget > 0, let job = jobs.popFirst() {
            job.runSynchronously(isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
            budget -= 1
        }
    }

    private func interrupt() {
        var one: UInt64 = 1
        _ = write(wake.rawValue, &one, 8)
    }

    /// The time in milliseconds since the machine started, read now. Includes the time for which it was suspended, as leases do,
    /// and never steps back.
    package static func milliseconds() -> UInt64 {
        MonotonicTime.now.milliseconds
    }

    // MARK: Executor

    /// Whether the caller runs on this loop.
    package var isOnLoop: Bool {
        thread.load(ordering: .relaxed) == UInt(pthread_self())
    }

    /// Traps unless the caller runs on this loop: how loop-confined classes check that they are.
    package func preconditionOnLoop() {
        precondition(isOnLoop, "to be called on loop \(label) only")
    }

    package func checkIsolated() {
        preconditionOnLoop()
    }

    package func isIsolatingCurrentContext() -> Bool? {
        isOnLoop
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        if isOnLoop {
            jobs.append(job)
        } else {
            post { $0.jobs.append(job) }
        }
    }

    package func asUnownedSerialExecutor() -> UnownedSerialExecutor {
        UnownedSerialExecutor(ordinary: self)
    }

    package func asUnownedTaskExecutor() -> UnownedTaskExecutor {
        UnownedTaskExecutor(ordinary: self)
    }

    /// Runs `body` on the loop: at once if the caller is on it, in its next tick otherwise. Callable from any thread.
    package func execute(_ body: @escaping @Sendable () -> Void) {
        if isOnLoop {
            body()
        } else {
            post { $0.closures.append(body) }
        }
    }

    private func post(_ change: (inout sending Inbox) -> Void) {
        let mustWake = inbox.withLock { inbox in
            guard !inbox.hasEnded else { return false }
            change(&inbox)
            defer { inbox.isWoken = true }
            return !inbox.isWoken
        }
        if mustWake { interrupt() }
    }

    // MARK: Descriptors

    /// Waits for `descriptor`, level-triggered, and calls `handler` on the loop each time it is ready.
    ///
    /// The descriptor stays the caller's. Deregister it first, close it last: the kernel forgets a closed descriptor silently,
    /// and its number comes back as somebody else's.
    ///
    /// - Throws: ``SystemError`` when epoll refuses the descriptor.
    package func register(
        _ descriptor: Int32,
        interest: Interest,
        _ handler: @escaping (Readiness) -> Void
    ) throws -> Registration {
        preconditionOnLoop()
        let registration = registrations.insert(descriptor, interest, handler)
        var event = clinux_epoll_event(interest.rawValue, registration.tag)
        guard epoll_ctl(epoll.rawValue, EPOLL_CTL_ADD, descriptor, &event) == 0 else {
            let error = SystemError(call: "epoll_ctl")
            registrations.remove(registration)
            throw error
        }
        return registration
    }

    /// Changes what a descriptor is waited on for. Costs a system call only if that differs.
    package func setInterest(_ interest: Interest, of registration: Registration) {
        preconditionOnLoop()
        guard let slot = registrations[registration], slot.interest != interest else { return }
        registrations.setInterest(interest, of: registration)
        var event = clinux_epoll_event(interest.rawValue, registration.tag)
        let result = epoll_ctl(epoll.rawValue, EPOLL_CTL_MOD, slot.descriptor, &event)
        precondition(result == 0, "a registered descriptor was closed before it was deregistered")
    }

    /// Stops waiting for a descriptor. Its handler is not called again, not even for an event of this tick.
    package func deregister(_ registration: Registration) {
        preconditionOnLoop()
        guard let slot = registrations[registration] else { return }
        var event = epoll_event()
        _ = epoll_ctl(epoll.rawValue, EPOLL_CTL_DEL, slot.descriptor, &event)
        registrations.remove(registration)
    }

    // MARK: Timers and hooks

    /// Calls `handler` on the loop once, `delay` from now, to the millisecond.
    @discardableResult
    package func schedule(after delay: Duration, _ handler: @escaping () -> Void) -> TimerID {
        preconditionOnLoop()
        // From the clock and not from `now`, which a long tick leaves behind; one more, because the clock is read rounded down.
        let ticks = delay > .zero ? delay.wholeMilliseconds + 1 : 0
        return timers.schedule(at: Self.milliseconds() + ticks, handler)
    }

    /// Cancels a timer. One that has fired or was cancelled before is left alone.
    package func cancel(_ timer: TimerID) {
        preconditionOnLoop()
        timers.cancel(timer)
    }

    /// Calls `hook` at the end of each tick, after its events and jobs, until it is removed.
    package func addEndOfTickHook(_ run: @escaping () -> Void) -> EndOfTickHook {
        preconditionOnLoop()
        mustNotSleep = true
        let hook = EndOfTickHook(run)
        hooks.append(hook)
        return hook
    }

    package func removeEndOfTickHook(_ hook: EndOfTickHook) {
        preconditionOnLoop()
        hook.isActive = false
        hooks.removeAll { $0 === hook }
    }

    /// Suspends the task for `delay`.
    ///
    /// - Throws: `CancellationError` as soon as the task is cancelled.
    package func sleep(for delay: Duration) async throws {
        let sleeper = Sleeper(loop: self)
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                self.execute { sleeper.begin(delay, continuation) }
            }
        } onCancel: {
            self.execute { sleeper.cancel() }
        }
    }
}

/// What ``EventLoop/addEndOfTickHook(_:)`` returned, to be removed by.
package final class EndOfTickHook: @unchecked Sendable {
    // Touched by its loop only, which both methods that take it check.
    fileprivate let run: () -> Void
    /// One hook may remove another in the same tick.
    fileprivate var isActive = true

    fileprivate init(_ run: @escaping () -> Void) {
        self.run = run
    }
}

/// One task that sleeps on a loop.
private final class Sleeper: @unchecked Sendable {
    // Touched on its loop only: `EventLoop.sleep` enters through `execute`.
    private let loop: EventLoop
    private var timer: TimerID?
    private var continuation: CheckedContinuation<Void, any Error>?
    private var isCancelled = false

    init(loop: EventLoop) {
        self.loop = loop
    }

    func begin(_ delay: Duration, _ continuation: CheckedContinuation<Void, any Error>) {
        guard !isCancelled else {
            continuation.resume(throwing: CancellationError())
            return
        }
        self.continuation = continuation
        timer = loop.schedule(after: delay) { self.end(.success(())) }
    }

    func cancel() {
        isCancelled = true
        if let timer { loop.cancel(timer) }
        end(.failure(CancellationError()))
    }

    private func end(_ result: Result<Void, any Error>) {
        timer = nil
        continuation?.resume(with: result)
        continuation = nil
    }
}

extension Duration {
    /// Rounded up, so that a timer never fires early; a negative duration is none.
    package var wholeMilliseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        // Thirty thousand years, lest a longer one overflow.
        return UInt64(min(seconds, 1_000_000_000_000)) * 1000 + UInt64(attoseconds + 999_999_999_999_999)
            / 1_000_000_000_000_000
    }
}
