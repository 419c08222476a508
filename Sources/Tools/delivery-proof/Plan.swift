import KakaoSandbox
import Runtime

/// The runs of a proof.
struct Plan {
    /// Whether to use only every tenth point.
    let isShort: Bool
    let seed: UInt64

    /// The distance between two points of the short form.
    private static let stride = 10
    /// The statements at which the faults strike in real time, by number of servers. The push is prepared, claimed and
    /// partly sent by then.
    private static let realTimePoints = [20, 35]
    /// The number of the first run in real time, far beyond those of the other runs.
    private static let firstRealTimeNumber = 1_000_001

    /// Returns the runs that determine the points: without a fault and after a kill, for each number of servers and
    /// delivery.
    static func baselines() -> [Run] {
        var runs: [Run] = []
        for isAfterKill in [false, true] {
            for servers in 1...2 {
                for delivery in Run.Delivery.allCases {
                    runs.append(
                        Run(point: nil, fault: nil, servers: servers, delivery: delivery, isAfterKill: isAfterKill)
                    )
                }
            }
        }
        return runs.numbered()
    }

    /// Returns one run for each point and fault, with alternating deliveries.
    ///
    /// After a kill, the points are the first executions of the statements that occur only after a kill, which reclaim
    /// batches.
    ///
    /// - Parameter baselines: The results of ``baselines()``.
    func runs(after baselines: [RunResult]) -> [Run] {
        var runs: [Run] = []
        for isAfterKill in [false, true] {
            for servers in 1...2 {
                let records = Run.Delivery.allCases.map { delivery in
                    (delivery, Self.points(in: baselines, servers, delivery, isAfterKill: isAfterKill))
                }
                for (faultIndex, fault) in ProxyFault.all.enumerated() {
                    for index in indices(0..<(records.map(\.1.count).max() ?? 0), faultIndex, servers) {
                        let (delivery, points) = records[(index + index / Self.stride + faultIndex) % records.count]
                        guard points.indices.contains(index) else { continue }
                        var run = Run(point: points[index], fault: fault, servers: servers, delivery: delivery)
                        run.isAfterKill = isAfterKill
                        runs.append(run)
                    }
                }
            }
        }
        runs += kakaoRuns(after: baselines)
        var random = SplitMix64(seed: seed)
        return runs.numbered(from: baselines.count + 1).shuffled(using: &random)
    }

    /// Returns the indices of the points at which a fault strikes. In the short form, each fault takes a different tenth of
    /// the points, so that they strike at different statements.
    private func indices(_ all: Range<Int>, _ faultIndex: Int, _ servers: Int) -> [Int] {
        let offset = (Int(seed % UInt64(Self.stride)) + 3 * faultIndex + servers) % Self.stride
        return all.filter { !isShort || $0 % Self.stride == offset }
    }

    /// Returns one run for each send to Kakao and fault, with alternating deliveries.
    private func kakaoRuns(after baselines: [RunResult]) -> [Run] {
        var runs: [Run] = []
        for servers in 1...2 {
            let sends = baselines.filter { $0.run.servers == servers && !$0.run.isAfterKill }.map(\.sends).min() ?? 0
            for (faultIndex, fault) in ProxyFault.ofKakao.enumerated() {
                for index in indices(0..<sends, faultIndex, servers) {
                    for delivery in Run.Delivery.allCases {
                        runs.append(Run(point: .send(index + 1), fault: fault, servers: servers, delivery: delivery))
                    }
                }
            }
        }
        return runs
    }

    private static func points(
        in baselines: [RunResult],
        _ servers: Int,
        _ delivery: Run.Delivery,
        isAfterKill: Bool
    ) -> [Point] {
        func record(isAfterKill: Bool) -> [Point] {
            let result = baselines.first {
                $0.run.servers == servers && $0.run.delivery == delivery && $0.run.isAfterKill == isAfterKill
            }
            return result?.record.map(\.point) ?? []
        }
        let points = record(isAfterKill: false)
        guard isAfterKill else { return points }
        let known = Set(points.map(\.digest))
        return record(isAfterKill: true).filter { !known.contains($0.digest) && $0.occurrence == 1 }
    }

    /// Returns the runs with the intervals of production.
    static func realTimeRuns() -> [Run] {
        var runs: [Run] = []
        for servers in 1...2 {
            for (index, fault) in ProxyFault.realTime.enumerated() {
                let delivery = Run.Delivery.allCases[(index + servers) % Run.Delivery.allCases.count]
                let point = Point(digest: "*", occurrence: realTimePoints[servers - 1])
                runs.append(Run(point: point, fault: fault, servers: servers, delivery: delivery, isRealTime: true))
            }
        }
        return runs.numbered(from: firstRealTimeNumber)
    }
}
