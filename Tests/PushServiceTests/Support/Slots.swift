/// Bounds how many tests have servers at a time: each has connections to PostgreSQL and loops of its own, and a machine may have
/// two cores.
actor Slots {
    static let servers = Slots(6)

    private var free: Int
    private var waiting: [CheckedContinuation<Void, Never>] = []

    init(_ count: Int) {
        free = count
    }

    /// Runs `body` as soon as there is a place.
    nonisolated func with(_ body: () async throws -> Void) async throws {
        await take()
        do {
            try await body()
        } catch {
            await giveBack()
            throw error
        }
        await giveBack()
    }

    private func take() async {
        if free > 0 {
            free -= 1
        } else {
            await withCheckedContinuation { waiting.append($0) }
        }
    }

    private func giveBack() {
        if waiting.isEmpty {
            free += 1
        } else {
            waiting.removeFirst().resume()
        }
    }
}
