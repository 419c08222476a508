/// A first-come, first-served limit on concurrent tests. Each test has connections and threads of its own, and a
/// machine may have only two cores.
package actor Slots {
    private var free: Int
    private var waiting: [CheckedContinuation<Void, Never>] = []

    package init(_ count: Int) {
        free = count
    }

    /// Runs `body` as soon as a slot is free.
    package nonisolated func with(_ body: () async throws -> Void) async throws {
        await take()
        do {
            try await body()
        } catch {
            await release()
            throw error
        }
        await release()
    }

    private func take() async {
        if free > 0 {
            free -= 1
        } else {
            await withCheckedContinuation { waiting.append($0) }
        }
    }

    private func release() {
        if waiting.isEmpty {
            free += 1
        } else {
            waiting.removeFirst().resume()
        }
    }
}
