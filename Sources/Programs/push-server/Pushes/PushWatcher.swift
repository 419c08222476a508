import ArgumentParser
import Endpoints
import EventLoop
import FoundationEssentials
import JSON
import Pushes
import UnixSignals

/// Shows the progress of a push until it has ended, is paused or halted, or Ctrl-C is pressed.
///
/// It follows the events of the push (`GET /v1/pushes/{id}/events`), and reconnects if they end early or the server is
/// unavailable.
struct PushWatcher {
    private enum Ending: Sendable {
        case push(ShownPush)
        case interrupted
    }

    /// The delay before a reconnection.
    private static let reconnectionDelay = Duration.seconds(1)
    /// The exit code with which a shell reports a program that SIGINT terminated.
    private static let interruptedCode: Int32 = 130

    let server: ServerClient
    let id: UUID
    /// Whether the server has responded before. If it does not respond at first, the watcher waits for it only in that
    /// case.
    var hasAnswered = false
    /// The time to wait for a server that does not respond. A restart takes much less.
    var patience = Duration.seconds(300)

    private var idText: String { id.lowercased }

    /// Watches the push until it is done.
    ///
    /// - Throws: `ExitCode` 1 if the push is canceled or has expired, 2 if it is paused or halted, and 130 after
    ///   Ctrl-C. ``CallFailure`` if the server is unavailable at first, or for longer than the watcher waits.
    func run() async throws {
        // From here on, Ctrl-C does not terminate the process by itself.
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
        case .push(let push): try await report(push)
        case .interrupted, nil, .some(nil):
            if Terminal.isOutput { Terminal.writeLine("") }
            Terminal.writeError("Stopped watching. The push continues: push-server pushes watch \(idText)")
            throw ExitCode(Self.interruptedCode)
        }
    }

    /// Shows the progress and returns the push once it has ended, or is paused or halted.
    func follow() async throws -> ShownPush {
        let isTerminal = Terminal.isOutput
        let times = (try? await server.times()) ?? .utc
        var meter = RateMeter()
        var last: (push: ShownPush, standstill: String?)?
        // Counted from the first failure, since this process may have been stopped, or the machine suspended, before it.
        var awaySince: ContinuousClock.Instant?
        while true {
            do {
                let ended = try await server.events("/v1/pushes/\(idText)/events") { json -> ShownPush? in
                    guard let push = try json.map({ try ShownPush($0) }) ?? last?.push else { return nil }
                    let now = ContinuousClock.now
                    awaySince = nil
                    if last == nil {
                        for warning in push.warnings { Terminal.writeError(times.shown(in: warning)) }
                    }
                    meter.add(push.finishedUsers, at: now)
                    var progress = PushProgress(state: push.state, users: push.users, rate: meter.perSecond)
                    progress.standstill = push.standstill(times, now: Date())
                    // Asked at first, and whenever the server has had nothing new for some time.
                    if progress.standstill == nil, push.isBeingSent, last == nil || json == nil {
                        progress.standstill = await senderStandstill()
                    }
                    if isTerminal {
                        Terminal.redraw(progress.line(width: Terminal.columns - 1))
                    } else if last.map({ $0 != (push, progress.standstill) }) ?? true {
                        Terminal.writeLine(progress.line)
                    }
                    last = (push, progress.standstill)
                    let isOver = push.state.isFinal || push.state == .paused || push.state == .halted
                    return isOver ? push : nil
                }
                if let ended {
                    if isTerminal { Terminal.writeLine("") }
                    return ended
                }
            } catch let failure as CallFailure where failure.kind != .refused && (hasAnswered || last != nil) {
                let now = ContinuousClock.now
                if awaySince == nil {
                    if isTerminal { Terminal.writeLine("") }
                    Terminal.writeError("The server does not respond; waiting for it.")
                }
                let begin = awaySince ?? now
                awaySince = begin
                guard now - begin < patience else {
                    if isTerminal { Terminal.writeLine("") }
                    throw failure
                }
            }
            try await server.loop.sleep(for: Self.reconnectionDelay)
        }
    }

    /// Returns that the sender does not send; `nil` if it does, or if that is unknown.
    private func senderStandstill() async -> String? {
        guard let sender = try? await server.get("/v1/status")["sender"], let state = sender["state"]?.string,
            state != "running"
        else { return nil }
        return "the sender is \(Text.printable(state)): push-server status"
    }

    private func report(_ push: ShownPush) async throws {
        let reason = push.reason.map { ": \($0.hasSuffix(".") ? $0.dropLast() : $0[...])" } ?? ""
        switch push.state {
        case .proposed, .scheduled, .preparing, .sending:
            break
        case .done:
            await reportFailure(of: push)
            if push.users.uncertain > 0 {
                Terminal.writeError(
                    """
                    \(Text.users(push.users.uncertain)) may or may not have been reached. To send to them again, possibly a second time: \
                    push-server pushes retry \(idText) --uncertain
                    """
                )
            }
            reportLeftOut(of: push)
        case .canceled, .expired:
            Terminal.writeError("The push is \(push.state.rawValue)\(reason).")
            throw ExitCode.failure
        case .paused, .halted:
            // The reason of a push that has grown says what to do.
            let advice =
                push.awaitsApproval
                ? "\n  push-server pushes approve \(idText)\n  push-server pushes cancel \(idText)"
                : " To resume it: push-server pushes resume \(idText)"
            Terminal.writeError("The push is \(push.state.rawValue)\(reason).\(advice)")
            throw ExitCode(2)
        }
    }

    /// Prints why batches of a push that is done have failed, and what to do.
    private func reportFailure(of push: ShownPush) async {
        guard push.users.failed > 0 else { return }
        // The push is done, whether or not the server says why.
        let failure = try? await server.failure(of: push)
        if let failure { Terminal.writeError("Kakao's answer to the first failed batch: \(failure.answer)") }
        Terminal.writeError(
            failure?.isFinal == true
                ? "Kakao rejects this message, or these users: a retry would fail too."
                : "To retry the failed batches: push-server pushes retry \(idText)"
        )
    }

    /// Prints how many users of a push that is done were left out, and why, if it had no users to send to or went to testers.
    private func reportLeftOut(of push: ShownPush) {
        let isEmpty = push.users.total == push.users.skipped
        guard isEmpty || push.toTesters else { return }
        if isEmpty { Terminal.writeError("The push was sent to nobody.") }
        if !push.leftOut.isEmpty {
            Terminal.writeError("Left out: \(push.leftOut.joined(separator: ", ")).")
        } else if isEmpty {
            Terminal.writeError("Its audience has no users.")
        }
    }
}
