internal import ArgumentParser
internal import EventLoop
internal import FoundationEssentials
internal import PushService
internal import UnixSignals

/// Shows how a push goes on until it has ended, has stopped, or nobody wants to see it any more.
///
/// It asks for the push once a second. The server also tells by itself, at `GET /v1/pushes/{id}/events`, but our HTTP client hands over a
/// response when it is whole; and a question that finds no server is simply asked again when there is one.
struct PushWatcher {
    private enum Ending: Sendable {
        case push(ShownPush)
        case interrupted
    }

    private static let interval = Duration.seconds(1)
    /// A server that is restarted is back long before.
    private static let patience = Duration.seconds(300)
    /// As a shell tells that a program was ended by SIGINT.
    private static let interruptedCode: Int32 = 130

    let server: ServerClient
    let id: UUID
    /// The server has answered already, so that it is waited for when it does not now.
    var hasAnswered = false

    private var idText: String { id.uuidString.lowercased() }

    /// - Throws: `ExitCode`, unless the push is done: 1 when it was canceled or has expired, 2 when it has stopped and can go on, 130 after
    ///   Ctrl-C. ``CallFailure`` when the server is not there at first, or not for long.
    func run() async throws {
        // From here on Ctrl-C ends nothing by itself.
        let signals = await UnixSignalsSequence(trapping: .sigint)
        let ending = try await withThrowingTaskGroup(of: Ending?.self) { group in
            group.addTask { .push(try await follow()) }
            group.addTask {
                for await _ in signals { return .interrupted }
                return nil
            }
            defer { group.cancelAll() }
            return try await group.next()
        }
        switch ending {
        case .push(let push): try report(push)
        case .interrupted, nil, .some(nil):
            if Terminal.isOutput { Terminal.writeLine("") }
            Terminal.writeError("No longer watching. The push goes on: see push-server pushes watch \(idText)")
            throw ExitCode(Self.interruptedCode)
        }
    }

    /// Returns the push when there is nothing more to be seen.
    private func follow() async throws -> ShownPush {
        let isTerminal = Terminal.isOutput
        var meter = RateMeter()
        var last: ShownPush?
        var lastAnswer = ContinuousClock.now
        var isAway = false
        while true {
            do {
                let push = try ShownPush(try await server.push(id))
                let now = ContinuousClock.now
                (lastAnswer, isAway) = (now, false)
                meter.add(push.users.sent + push.users.failed + push.users.uncertain, at: now)
                let progress = PushProgress(state: push.state, users: push.users, rate: meter.perSecond)
                if isTerminal {
                    Terminal.redraw(progress.line(width: Terminal.columns - 1))
                } else if push != last {
                    Terminal.writeLine(progress.line)
                }
                last = push
                if push.state.isFinal || push.state == .paused || push.state == .halted {
                    if isTerminal { Terminal.writeLine("") }
                    return push
                }
            } catch let failure as CallFailure where failure.kind != .refused && (hasAnswered || last != nil) {
                guard ContinuousClock.now - lastAnswer < Self.patience else {
                    if isTerminal { Terminal.writeLine("") }
                    throw failure
                }
                if !isAway {
                    if isTerminal { Terminal.writeLine("") }
                    Terminal.writeError("The server does not answer; waiting for it.")
                }
                isAway = true
            }
            try await server.loop.sleep(for: Self.interval)
        }
    }

    private func report(_ push: ShownPush) throws {
        let reason = push.reason.map { ": \($0)" } ?? ""
        switch push.state {
        case .scheduled, .preparing, .sending:
            break
        case .done:
            if push.users.failed > 0 {
                Terminal.writeError("To send again what has failed: push-server pushes retry \(idText)")
            }
        case .canceled, .expired:
            Terminal.writeError("The push is \(push.state.rawValue)\(reason).")
            throw ExitCode.failure
        case .paused, .halted:
            Terminal.writeError(
                "The push is \(push.state.rawValue)\(reason). To let it go on: push-server pushes resume \(idText)"
            )
            throw ExitCode(2)
        }
    }
}
