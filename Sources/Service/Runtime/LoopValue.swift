import EventLoop

/// A value of which each event loop has a copy, so that reading it takes no lock. A reload of the settings replaces it.
package final class LoopValue<Value: Sendable>: Sendable {
    /// The copy of one loop.
    package final class Copy: @unchecked Sendable {
        // The loop owns `stored`: only code that runs on the loop accesses it, which all methods check.

        fileprivate let loop: EventLoop
        private var stored: Value

        fileprivate init(_ value: Value, _ loop: EventLoop) {
            stored = value
            self.loop = loop
        }

        /// The value at present. Read it on the loop only, and do not keep it.
        package var value: Value {
            loop.preconditionOnLoop()
            return stored
        }

        /// Changes the value. Called on the loop only.
        package func change(_ body: (inout Value) -> Void) {
            loop.preconditionOnLoop()
            body(&stored)
        }
    }

    private let copies: [Copy]

    package init(_ value: Value, loops: [EventLoop]) {
        copies = loops.map { Copy(value, $0) }
    }

    /// Returns the copy of a loop, which must be one of the server's.
    package func on(_ loop: EventLoop) -> Copy {
        guard let copy = copies.first(where: { $0.loop === loop }) else { preconditionFailure("each loop has a copy") }
        return copy
    }

    /// Replaces the value on all loops. Afterwards no loop has the old one.
    package func replace(by value: Value) async {
        for copy in copies { await copy.loop.result { copy.change { $0 = value } } }
    }

    /// Returns the values of all loops.
    package func all() async -> [Value] {
        var values: [Value] = []
        for copy in copies { values.append(await copy.loop.result { copy.value }) }
        return values
    }
}
