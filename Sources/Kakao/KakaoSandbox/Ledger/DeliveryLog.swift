/// The newest deliveries in full, and the counts of all deliveries.
struct DeliveryLog {
    private var log: RecentLog<Delivery>
    /// The number of deliveries by outcome.
    private(set) var counts: [Delivery.Outcome: Int] = [:]

    init(capacity: Int) {
        log = RecentLog(capacity: capacity)
    }

    /// The sequence number of the next delivery.
    var nextSequence: Int { log.nextSequence }

    mutating func append(_ delivery: Delivery) {
        log.append(delivery)
        counts[delivery.outcome, default: 0] += 1
    }

    /// Returns the oldest deliveries after a sequence number, of one user or of all users, at most `limit`.
    func page(of userID: Int64?, after: Int, limit: Int) -> [Delivery] {
        log.page(after: after, limit: limit) { userID == nil || $0.userID == userID }
    }

    /// Removes all deliveries and restarts at sequence number 1.
    mutating func removeAll() {
        log.removeAll()
        counts = [:]
    }
}
