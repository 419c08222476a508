import CLinux

/// The events that a loop waits for on a descriptor.
package struct Interest: OptionSet, Sendable {
    package let rawValue: UInt32

    package init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    /// Creates a set from two flags, without the cost of building it from a list.
    package init(reading: Bool, writing: Bool) {
        rawValue = (reading ? EPOLLIN.rawValue : 0) | (writing ? EPOLLOUT.rawValue : 0)
    }

    /// Bytes to read, a connection to accept, or the end of input.
    package static let read = Interest(rawValue: EPOLLIN.rawValue)
    /// Room to write.
    package static let write = Interest(rawValue: EPOLLOUT.rawValue)
}

/// The events for which a descriptor is ready.
package struct Readiness: OptionSet, Sendable {
    package let rawValue: UInt32

    package init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    /// A read does not block: it returns bytes, the end of input or an error.
    package static let read = Readiness(rawValue: EPOLLIN.rawValue)
    /// A write does not block.
    package static let write = Readiness(rawValue: EPOLLOUT.rawValue)
    /// The socket has an error, which the next call on it returns. Reported regardless of the interest.
    package static let error = Readiness(rawValue: EPOLLERR.rawValue)
    /// Both directions are shut down. Reported regardless of the interest.
    package static let hangUp = Readiness(rawValue: EPOLLHUP.rawValue)

    /// Whether to read: there are bytes, the end of input or an error.
    package var concernsInput: Bool {
        rawValue & (EPOLLIN.rawValue | EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0
    }
}

/// A descriptor's registration with a loop, returned by ``EventLoop/register(_:interest:_:)``.
///
/// The generation distinguishes this registration from a later one in the same slot. An event that the kernel reported
/// before the descriptor was deregistered therefore reaches no handler.
package struct Registration: Equatable, Sendable {
    let slot: UInt32
    let generation: UInt32

    /// The 64 bits that epoll returns with each event.
    var tag: UInt64 { UInt64(generation) << 32 | UInt64(slot) }

    init(slot: UInt32, generation: UInt32) {
        self.slot = slot
        self.generation = generation
    }

    init(tag: UInt64) {
        slot = UInt32(truncatingIfNeeded: tag)
        generation = UInt32(truncatingIfNeeded: tag >> 32)
    }
}

/// The descriptors that one loop waits on, in reusable slots.
struct RegistrationTable {
    struct Slot {
        var generation: UInt32 = 0
        var descriptor: Int32 = -1
        var interest: Interest = []
        var handler: ((Readiness) -> Void)?
    }

    private var slots: [Slot] = []
    private var free: [UInt32] = []

    /// The number of active registrations.
    var count: Int { slots.count - free.count }

    mutating func insert(
        _ descriptor: Int32,
        _ interest: Interest,
        _ handler: @escaping (Readiness) -> Void
    ) -> Registration {
        let index: UInt32
        if let reused = free.popLast() {
            index = reused
        } else {
            index = UInt32(slots.count)
            slots.append(Slot())
        }
        slots[Int(index)].descriptor = descriptor
        slots[Int(index)].interest = interest
        slots[Int(index)].handler = handler
        return Registration(slot: index, generation: slots[Int(index)].generation)
    }

    /// The slot of a registration, or `nil` if it was deregistered.
    subscript(registration: Registration) -> Slot? {
        let index = Int(registration.slot)
        guard index < slots.count, slots[index].generation == registration.generation, slots[index].descriptor >= 0
        else {
            return nil
        }
        return slots[index]
    }

    mutating func setInterest(_ interest: Interest, of registration: Registration) {
        slots[Int(registration.slot)].interest = interest
    }

    mutating func remove(_ registration: Registration) {
        let index = Int(registration.slot)
        slots[index] = Slot(generation: slots[index].generation &+ 1)
        free.append(registration.slot)
    }
}
