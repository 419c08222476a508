import CLinux
import DequeModule
package import Dispatch
import Glibc
import Locking
import Synchronization

/// A loop that waits for sockets, timers and jobs, and runs all of them on one thread.
///
/// A loop is one block on a serial Dispatch queue of its own, and it waits with epoll instead of `DispatchSource`
/// (`docs/decisions/0001-epoll-beneath-dispatch.md`). It is a Swift executor in both senses. As a `TaskExecutor` it
/// runs the tasks that prefer it (`Task(executorPreference: loop)`). As a `SerialExecutor` it isolates the actors that
/// name it. State on a loop is therefore confined to it by the compiler or by ``preconditionOnLoop()``, never by a
/// comment.
///
/// A tick runs events, each followed by the jobs that it enqueues, then what was left for its end, work that waits for its
/// turn, and timers. At its end, the output that was gathered during the tick is sent in one system call. The work of one
/// tick is bounded, so that no source of work starves another. Code on a loop must not block: host name lookups, `PQcancel`
/// and reading certificate files go to ``blocking``.
///
/// A timer fires only after the loop has handled every event that happened before the timer's deadline, even if the
/// process was stopped in between. A response that arrived in time therefore cancels its timeout.
package final class EventLoop: TaskExecutor, SerialExecutor, @unchecked Sendable {
    // Ownership: `inbox` is shared and locked. `thread` is atomic: set before the loop runs its first job, cleared when it
    // ends. Only the loop's own thread accesses the rest; all methods check that, but not `now` and `scratch`.

    /// Work that other threads have enqueued for the loop.
    private struct Inbox {
        var jobs: [UnownedJob] = []
        var closures: [@Sendable () -> Void] = []
        /// The eventfd is written and not yet read. Only the first thread to enqueue pays for the system call.
        var isWoken = false
        var isStopping = false
        /// The loop has ended and ignores new work.
        var hasEnded = false
    }

    private static let eventsPerTick = 256
    /// Jobs that run in one tick before the loop polls sockets again.
    private static let jobsPerTick = 1024
    /// The milliseconds after which a tick starts no more of the work that can wait, and those that work which has waited
    /// gets in each tick besides.
    private static let millisecondsPerTick: UInt64 = 5
    /// Maximum depth of a chain of jobs that runs before a timer. A chain leads from the event that resumes a task to
    /// the cancellation of its timeout, with several jobs for each function on the way.
    private static let generationsBeforeTimers = 64
    /// Rounds in which an ending loop runs remaining work. The limit ends the loop even if its work keeps enqueuing
    /// more.
    private static let lastRounds = 100
    /// Tag of the eventfd. It differs from the tag of every registration, because no table reaches this slot.
    private static let wakeTag = UInt64.max

    /// Queue for calls that block. Its threads are bounded by Dispatch, and none of them is a loop's.
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
    /// The number of jobs that may still run in this tick.
    private var jobsLeft = jobsPerTick
    /// See ``atEndOfTick(_:)``.
    private var endOfTick: [() -> Void] = []
    private var waitingWork: Deque<any WaitingWork> = []
    /// The eventfd was ready in this tick. Only then does the inbox hold work, and only then is it locked.
    private var isCalled = false
    private var timers: TimerWheel<() -> Void>

    private var delay = LoopDelay()

    /// The time in milliseconds, read at the start of each tick. See ``milliseconds()``.
    package private(set) var now: UInt64

    /// A scratch buffer for reading sockets. All code on the loop shares it; its contents are valid until the reader
    /// returns.
    package let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 * 1024, alignment: 16)

    /// Creates a loop that is not yet running. Call ``start()`` to run it.
    ///
    /// - Throws: ``SystemError`` when the process has no descriptors left.
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

    /// Ends the loop. Work enqueued before this call still runs. Later work is dropped once the loop has emptied its queues, so
    /// stop everything that lives on a loop first.
    package func stop() {
        inbox.withLock { $0.isStopping = true }
        interrupt()
    }

    /// Blocks until the loop has ended. Must not be called on a loop.
    package func join() {
        finished.wait()
    }

    private func run() {
        thread.store(UInt(pthread_self()), ordering: .releasing)
        var events = [epoll_event](repeating: epoll_event(), count: Self.eventsPerTick)
        now = Self.milliseconds()
        while tick(&events) {}
        drainAndRelease()
        thread.store(0, ordering: .releasing)
    }

    /// Runs the remaining work, then releases everything that the loop holds: most of it holds the loop.
    private func drainAndRelease() {
        var rounds = 0
        repeat {
            _ = drainInbox()
            jobsLeft = Self.jobsPerTick
            runJobs()
            rounds += 1
        } while !closeInbox(unconditionally: rounds == Self.lastRounds)
        endOfTick = []
        waitingWork = []
        jobs = []
        timers = TimerWheel(start: now)
        registrations = RegistrationTable()
    }

    /// Stops accepting work if none is left, or unconditionally in the last round. Returns whether the loop has ended.
    private func closeInbox(unconditionally isLast: Bool) -> Bool {
        inbox.withLock { inbox in
            inbox.hasEnded = isLast || jobs.isEmpty && inbox.jobs.isEmpty && inbox.closures.isEmpty
            return inbox.hasEnded
        }
    }

    /// Runs one tick. Returns whether another one must follow.
    private func tick(_ events: inout [epoll_event]) -> Bool {
        let end = Self.milliseconds()
        delay.record(end - now, at: end)
        let ready = poll(&events, waitMilliseconds(at: end))
        now = Self.milliseconds()
        jobsLeft = Self.jobsPerTick
        for index in 0..<ready {
            dispatch(events[index])
            // Not after all events, so that the time of this work counts before another event starts more.
            runJobs()
        }
        var isStopping = isCalled && drainInbox()
        runJobs()
        if let deadline = timers.nextDeadline, deadline <= now {
            dispatchEventsBeforeTimers(&events)
            if isCalled, drainInbox() { isStopping = true }
            runJobsBeforeTimers()
        }
        runEndOfTick()
        if !waitingWork.isEmpty {
            runWaitingWork()
            runEndOfTick()
        }
        let due = timers.advance(to: now)
        for id in due { timers.cancel(id)?() }
        return !isStopping
    }

    /// Waits for events for up to `limit` milliseconds. Returns their number, which is 0 at the limit or if a signal
    /// ended the wait.
    private func poll(_ events: inout [epoll_event], _ limit: Int32) -> Int {
        events.withUnsafeMutableBufferPointer {
            max(0, Int(epoll_wait(epoll.rawValue, $0.baseAddress, Int32($0.count), limit)))
        }
    }

    /// Dispatches the events that happened before ``now`` and were not yet reported.
    ///
    /// The poll of this tick may have missed events for three reasons. The process may have been stopped between the
    /// poll and reading the clock. A signal ends a poll without events. One poll reports at most `eventsPerTick`
    /// events. The kernel reports ready descriptors in turn, so the number of registrations bounds the number of polls.
    private func dispatchEventsBeforeTimers(_ events: inout [epoll_event]) {
        for _ in 0...(registrations.count / Self.eventsPerTick) {
            let ready = poll(&events, 0)
            for index in 0..<ready { dispatch(events[index]) }
            if ready < Self.eventsPerTick { break }
        }
    }

    /// The timeout of the next poll: 0 with something to run, otherwise the time until the next timer, or -1 (unlimited)
    /// without a timer.
    private func waitMilliseconds(at now: UInt64) -> Int32 {
        guard jobs.isEmpty, endOfTick.isEmpty, waitingWork.isEmpty else { return 0 }
        guard let deadline = timers.nextDeadline else { return -1 }
        return Int32(clamping: deadline - min(deadline, now))
    }

    @inline(__always)
    private func dispatch(_ event: epoll_event) {
        let tag = withUnsafePointer(to: event) { clinux_epoll_tag($0) }
        guard tag != Self.wakeTag else {
            var count: UInt64 = 0
            _ = read(wake.rawValue, &count, 8)
            isCalled = true
            return
        }
        // The generation does not match if a handler deregistered the descriptor earlier in this tick.
        guard let slot = registrations[Registration(tag: tag)] else { return }
        slot.handler?(Readiness(rawValue: event.events))
    }

    /// Moves the work that other threads enqueued to this loop. Returns whether the loop must stop.
    private func drainInbox() -> Bool {
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

    /// Runs the pending jobs, the jobs that they enqueue, and so on. A response thus gets as far as cancelling its
    /// timeout. The number of generations is bounded, because a task may keep enqueuing jobs for ever.
    private func runJobsBeforeTimers() {
        for _ in 0..<Self.generationsBeforeTimers where !jobs.isEmpty {
            jobsLeft = jobs.count
            runJobs()
        }
    }

    /// Runs the enqueued jobs, and those that they enqueue, up to the limit of this tick.
    package func runJobs() {
        while !jobs.isEmpty, jobsLeft > 0 {
            let job = jobs.removeFirst()
            jobsLeft -= 1
            job.runSynchronously(isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
        }
    }

    private func runEndOfTick() {
        guard !endOfTick.isEmpty else { return }
        var bodies: [() -> Void] = []
        swap(&bodies, &endOfTick)
        for body in bodies { body() }
        // The array is reused, unless a body has left something for the next tick.
        bodies.removeAll(keepingCapacity: true)
        if endOfTick.isEmpty { swap(&bodies, &endOfTick) }
    }

    /// Runs work that waits for its turn, for a time of its own: whatever else happens in a tick, it goes on.
    private func runWaitingWork() {
        let start = Self.milliseconds()
        repeat {
            jobsLeft = Self.jobsPerTick
            // In the queue until it has run, so that ``hasTime`` is false meanwhile.
            let hasMore = waitingWork[0].runNext()
            let work = waitingWork.removeFirst()
            if hasMore { waitingWork.append(work) }
        } while !waitingWork.isEmpty && Self.milliseconds() - start < Self.millisecondsPerTick
    }

    private func interrupt() {
        var one: UInt64 = 1
        _ = write(wake.rawValue, &one, 8)
    }

    /// The current time in milliseconds since the machine started. It includes the time for which the machine was
    /// suspended, as leases do, and never steps back.
    package static func milliseconds() -> UInt64 {
        MonotonicTime.now.milliseconds
    }

    // MARK: Executor

    /// Whether the caller runs on this loop.
    package var isOnLoop: Bool {
        thread.load(ordering: .relaxed) == UInt(pthread_self())
    }

    /// Traps unless the caller runs on this loop. Classes confined to a loop call this to check that they are.
    package func preconditionOnLoop() {
        precondition(isOnLoop, "Call this on loop \(label) only.")
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

    /// Runs `body` on the loop: at once if the caller is on it, otherwise in the next tick. Callable from any thread.
    package func execute(_ body: @escaping @Sendable () -> Void) {
        if isOnLoop {
            body()
        } else {
            post { $0.closures.append(body) }
        }
    }

    /// Runs `body` on the loop and returns its result.
    package func result<Value: Sendable>(of body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            execute { continuation.resume(returning: body()) }
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

    // MARK: Delay

    /// The longest time in milliseconds, within about the last minute, for which the loop did not look for events.
    package var longestDelay: UInt64 {
        preconditionOnLoop()
        return delay.longest(at: now)
    }

    // MARK: Descriptors

    /// Waits for `descriptor`, level-triggered, and calls `handler` on the loop each time it is ready.
    ///
    /// The caller keeps ownership of the descriptor and must deregister it before closing it. The kernel silently
    /// forgets a closed descriptor, and its number is reused for another one.
    ///
    /// - Throws: ``SystemError`` when epoll rejects the descriptor.
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

    /// Changes the events that the loop waits for on a descriptor. Makes a system call only if they differ.
    package func setInterest(_ interest: Interest, of registration: Registration) {
        preconditionOnLoop()
        guard let slot = registrations[registration], slot.interest != interest else { return }
        registrations.setInterest(interest, of: registration)
        var event = clinux_epoll_event(interest.rawValue, registration.tag)
        let result = epoll_ctl(epoll.rawValue, EPOLL_CTL_MOD, slot.descriptor, &event)
        precondition(result == 0, "A registered descriptor was closed. Deregister it before closing it.")
    }

    /// Stops waiting for a descriptor, if there is one. Its handler is not called again, not even for a pending event of
    /// this tick.
    package func deregister(_ registration: Registration?) {
        preconditionOnLoop()
        guard let registration, let slot = registrations[registration] else { return }
        var event = epoll_event()
        _ = epoll_ctl(epoll.rawValue, EPOLL_CTL_DEL, slot.descriptor, &event)
        registrations.remove(registration)
    }

    // MARK: Work that waits

    /// Calls `body` once, at the end of this tick, after its events and jobs; at the end of the next one if the end of this
    /// one calls this.
    package func atEndOfTick(_ body: @escaping () -> Void) {
        preconditionOnLoop()
        endOfTick.append(body)
    }

    /// Whether this tick has time for more work that can wait. It has none while other such work waits.
    package var hasTime: Bool { waitingWork.isEmpty && Self.milliseconds() - now < Self.millisecondsPerTick }

    /// Runs `work` in this tick and the next ones, as far as there is time, until nothing of it is left.
    package func add(_ work: any WaitingWork) {
        preconditionOnLoop()
        guard !waitingWork.contains(where: { $0 === work }) else { return }
        waitingWork.append(work)
    }

    // MARK: Timers

    /// Calls `handler` on the loop once, after `delay`, to the millisecond.
    @discardableResult
    package func schedule(after delay: Duration, _ handler: @escaping () -> Void) -> TimerID {
        preconditionOnLoop()
        // Counts from the clock, because `now` is stale late in a long tick. Adds 1 ms, because the clock is rounded
        // down.
        let ticks = delay > .zero ? delay.wholeMilliseconds + 1 : 0
        return timers.schedule(at: Self.milliseconds() + ticks, handler)
    }

    /// Cancels a timer, if there is one. Has no effect on a timer that has fired or was cancelled before.
    package func cancel(_ timer: TimerID?) {
        preconditionOnLoop()
        if let timer { timers.cancel(timer) }
    }

    /// Suspends the task for `delay`.
    ///
    /// - Throws: `CancellationError` as soon as the task is cancelled.
    package func sleep(for delay: Duration) async throws {
        try await Promise<Void>.value(on: self) { promise in
            promise.after(delay) { promise.complete(.success(())) }
        }
    }
}

/// Work on a loop that waits for its turn, because a tick has no time for all of it: see ``EventLoop/hasTime``.
package protocol WaitingWork: AnyObject {
    /// Runs the next piece, with the jobs that it enqueues (``EventLoop/runJobs()``). Returns whether more of it waits.
    func runNext() -> Bool
}

extension Duration {
    /// The duration in milliseconds, rounded up so that a timer never fires early. A negative duration is 0.
    package var wholeMilliseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        // Clamped to about 30,000 years, so that a longer duration does not overflow.
        return UInt64(min(seconds, 1_000_000_000_000)) * 1000 + UInt64(attoseconds + 999_999_999_999_999)
            / 1_000_000_000_000_000
    }
}
