import Testing

@testable import Postgres

@Suite struct ConnectionPlanTests {
    @Test(
        "Each loop has three connections, then two, then loops share them; the rest is for transactions",
        arguments: [
            (loops: 1, maximum: 30, pools: 1, writes: 2, exclusive: 4),
            (2, 30, 2, 2, 8),
            (8, 30, 8, 2, 5),
            (9, 30, 9, 1, 11),
            (12, 30, 12, 1, 5),
            (13, 30, 12, 1, 5),
            (32, 30, 12, 1, 5),
            (32, 120, 32, 2, 23),
            (32, 5, 1, 1, 2),
            (1, 5, 1, 1, 2),
            (4, 9, 2, 1, 4),
        ]
    )
    func plans(loops: Int, maximum: Int, pools: Int, writes: Int, exclusive: Int) {
        let plan = ConnectionPlan(loops: loops, maximum: maximum)
        #expect(plan.pools == pools)
        #expect(plan.writeConnections == writes)
        #expect(plan.exclusiveConnections == exclusive)
    }

    @Test("A server never opens more than its maximum, and has a pool and two connections for transactions")
    func bounds() {
        for maximum in ConnectionPlan.minimum...200 {
            for loops in 1...70 {
                let plan = ConnectionPlan(loops: loops, maximum: maximum)
                #expect(plan.total <= maximum)
                #expect((1...loops).contains(plan.pools))
                #expect(plan.exclusiveConnections >= 2)
            }
        }
    }
}
