/// The newest deliveries in full, and the number of all that ever were.
struct DeliveryLog {
    private let capacity: Int
    /// A ring: the delivery of sequence n is at (n - 1) % capacity.
    private var ring: [Delivery] = []
    private(set) var count = 0
    /// By outcome.
    private(set) var counts: [Delivery.Outcome: Int] = [:]

    init(capacity: Int) {
        self.capacity = max(1, capacity)
    }

    /// The sequence of the next delivery.
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

    /// The oldest deliveries after a sequence, of one user or of all, at most `limit`.
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

    /// Begins anew, at sequence 1.
    mutating func removeAll() {
        self = DeliveryLog(capacity: capacity)
    }
}
