/// The newest deliveries in full, and the counts of all deliveries.
struct DeliveryLog {
    private let capacity: Int
    /// A ring buffer: the delivery with sequence number n is at (n - 1) % capacity.
    private var ring: [Delivery] = []
    private(set) var count = 0
    /// The number of deliveries by outcome.
    private(set) var counts: [Delivery.Outcome: Int] = [:]

    init(capacity: Int) {
        self.capacity = max(1, capacity)
    }

    /// The sequence number of the next delivery.
    var nextSequence: Int { count + 1 }

    mutating func append(_ delivery: Delivery) {
        let index = count % capacity
        if index < ring.count {
            ring[index] = delivery
        } else {
            ring.append(delivery)
        }
        count += 1
        counts[delivery.outcome, default: 0] += 1
    }

    /// Returns the oldest deliveries after a sequence number, of one user or of all users, at most `limit`.
    func page(of userID: Int64?, after: Int, limit: Int) -> [Delivery] {
        var found: [Delivery] = []
        let oldest = count - ring.count + 1
        var sequence = max(oldest, min(after, count) + 1)
        while sequence <= count, found.count < limit {
            let delivery = ring[(sequence - 1) % capacity]
            if userID == nil || delivery.userID == userID { found.append(delivery) }
            sequence += 1
        }
        return found
    }

    /// Removes all deliveries and restarts at sequence number 1.
    mutating func removeAll() {
        self = DeliveryLog(capacity: capacity)
    }
}
