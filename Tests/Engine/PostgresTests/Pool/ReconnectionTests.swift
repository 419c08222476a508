import Testing

@testable import Postgres

@Suite struct ReconnectionTests {
    @Test("Statements may wait for the first attempt; after it has failed they may not until there is a connection")
    func firstAttempt() {
        var reconnection = Reconnection()
        #expect(reconnection.start() == .connect)
        #expect(reconnection.mayWait)
        #expect(reconnection.ended(at: 0, jitter: 0) == .connectLater(50))
        #expect(!reconnection.mayWait)
        #expect(reconnection.delayPassed() == .connect)
        #expect(!reconnection.mayWait)
        reconnection.opened(at: 60)
        #expect(reconnection.mayWait)
    }

    @Test("A lost connection is reopened at once, and statements may wait for it")
    func lost() {
        var reconnection = Reconnection()
        _ = reconnection.start()
        reconnection.opened(at: 0)
        #expect(reconnection.ended(at: 5000, jitter: 0) == .connect)
        #expect(reconnection.mayWait)
    }

    @Test("The delay doubles with each failure, up to 1 s, with a jitter of 20 percent")
    func backOff() {
        var reconnection = Reconnection()
        _ = reconnection.start()
        for delay: UInt64 in [50, 100, 200, 400, 800, 1000, 1000] {
            #expect(reconnection.ended(at: 0, jitter: 0) == .connectLater(delay))
            #expect(reconnection.delayPassed() == .connect)
        }
        #expect(reconnection.ended(at: 0, jitter: 1) == .connectLater(1200))
        _ = reconnection.delayPassed()
        #expect(reconnection.ended(at: 0, jitter: -1) == .connectLater(800))
    }

    @Test("A server that closes every new connection is not reconnected in a busy loop")
    func shortLife() {
        var reconnection = Reconnection()
        _ = reconnection.start()
        reconnection.opened(at: 0)
        #expect(reconnection.ended(at: 10, jitter: 0) == .connectLater(50))
        // No connection attempt has failed.
        #expect(reconnection.mayWait)
        _ = reconnection.delayPassed()
        reconnection.opened(at: 100)
        #expect(reconnection.ended(at: 110, jitter: 0) == .connectLater(100))
        _ = reconnection.delayPassed()
        reconnection.opened(at: 300)
        #expect(reconnection.ended(at: 5000, jitter: 0) == .connect)
    }

    @Test("A closed connection is not reopened")
    func closed() {
        var reconnection = Reconnection()
        _ = reconnection.start()
        reconnection.close()
        #expect(reconnection.ended(at: 0, jitter: 0) == .none)
        #expect(reconnection.start() == .none)
        #expect(!reconnection.mayWait)
    }
}
