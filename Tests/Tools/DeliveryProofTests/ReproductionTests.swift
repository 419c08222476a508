import Testing

@testable import delivery_proof

/// The printed form of faults and points, which the options parse to reproduce a violation.
@Suite struct ReproductionTests {
    @Test("The printed form of each fault is parsed back")
    func faults() {
        for fault in ProxyFault.all + ProxyFault.realTime { #expect(ProxyFault(fault.description) == fault) }
        for text in ["", "cut", "stop-", "stop-x", "stop--1", "stop-1e9", "kill 1"] { #expect(ProxyFault(text) == nil) }
    }

    @Test("The printed form of a point is parsed back")
    func points() {
        #expect(Point("3fa1c2#4") == Point(digest: "3fa1c2", occurrence: 4))
        #expect(Point("*#12")?.description == "*#12")
        for text in ["", "3fa1c2", "3fa1c2#0", "3fa1c2#", "#", "3fa1c2#-1"] { #expect(Point(text) == nil) }
    }

    @Test("A statement is identified by its text regardless of white space")
    func statements() {
        #expect(StatementKey(sql: "SELECT 1\n  FROM a").digest == StatementKey(sql: " SELECT 1 FROM a").digest)
        #expect(StatementKey(sql: "SELECT 1 FROM a").digest != StatementKey(sql: "SELECT 2 FROM a").digest)
        #expect(StatementKey(sql: "COMMIT").isTransactionControl)
        #expect(StatementKey(sql: "SELECT 1").digest.utf8.count == 6)
    }

    @Test("A server may lose its lease to another server, or when it is killed")
    func leases() throws {
        let stop = try #require(ProxyFault("stop-1.2"))
        #expect(!stop.mayLoseLease(servers: 1))
        #expect(stop.mayLoseLease(servers: 2))
        #expect(try !#require(ProxyFault("stop-0.3")).mayLoseLease(servers: 2))
        #expect(ProxyFault.kill.mayLoseLease(servers: 1))
    }
}
