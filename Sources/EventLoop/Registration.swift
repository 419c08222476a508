internal import CLinux

/// What a descriptor is waited on for.
package struct Interest: OptionSet, Sendable {
    package let rawValue: UInt32

    package init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    /// Either, both or neither, without the cost of building a set from a list.
    package init(reading: Bool, writing: Bool) {
        rawValue = (reading ? EPOLLIN.rawValue : 0) | (writing ? EPOLLOUT.rawValue : 0)
    }

    /// There are bytes to read, a connection to accept, or the peer has closed.
    package static let read = Interest(rawValue: EPOLLIN.rawValue)
    /// There is room to write.
    package static let write = Interest(rawValue: EPOLLOUT.rawValue)
}

/// What a descriptor has become ready for.
package struct Readiness: OptionSet, Sendable {
    package let rawValue: UInt32

    package init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    /// A read will not block: bytes, the end, or an error to be fetched.
    package static let read = Readiness(rawValue: EPOLLIN.rawValue)
    /// A write will not block.
    package static let write = Readiness(rawValue: EPOLLOUT.rawValue)
    /// The socket has an error: the next call on it returns it. Told whatever was asked for.
    package static let error = Readiness(rawValue: EPOLLERR.rawValue)
    /// Both directions are shut. Told whatever was asked for.
    package static let hangUp = Readiness(rawValue: EPOLLHUP.rawValue)

    /// A read tells more: bytes, the end, or an error.
    package var concernsInput: Bool {
        rawValue & (EPOLLIN.rawValue | EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0
    }
}

/// A descriptor that a loop waits on, as ``EventLoop/register(_:interest:_:)`` returned it.
///
/// The generation tells this registration from a later one in the same slot, so that an event which the kernel had reported
/// before the descriptor was deregistered reaches nobody.
package struct Registration: Equatable, Sendable {
    let slot: UInt32
    let generation: UInt32

    /// The 64 bits that epoll hands back with each event.
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

/// The descriptors that one loop waits on, each in a slot that is used again.
struct RegistrationTable {
    struct Slot {
        var generation: UInt32 = 0
        var descriptor: Int32 = -1
        var interest: Interest = []
        var handler: ((Readiness) -> Void)?
    }

    private var slots: [Slot] = []
    private var free: [UInt32] = []

    /// Registrations in force.
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

    /// The slot of a registration that is still in force.
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
