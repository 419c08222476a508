import EventLoop
import FoundationEssentials
import KakaoAPI
import Runtime
import ServiceTesting
import Testing

@testable import Devices

/// The changes of devices that an event loop remembers in case PostgreSQL loses them.
@Suite struct KnownDevicesTests {
    @Test("The latest change of each device is returned with all that describes it, in the order of the changes")
    func changes() async throws {
        let loop = try Shared.loop
        let value = LoopValue(KnownDevices(), loops: [loop])
        let known = value.on(loop)
        func key(_ userID: Int64) -> DeviceKey { DeviceKey(userID: userID, deviceID: "기기", pushType: .apns) }
        func change(_ userID: Int64, _ token: String, _ time: Double, isWithdrawn: Bool = false) -> DeviceChange {
            DeviceChange(
                key: key(userID),
                pushToken: token,
                isWithdrawn: isWithdrawn,
                changedAt: Date(timeIntervalSinceReferenceDate: time)
            )
        }
        let full = DeviceRegistration(
            key: key(1),
            pushToken: "first",
            locale: "ko-KR",
            timezone: "Asia/Seoul",
            appVersion: "3.1",
            tags: ["뉴스", "sale"],
            authorizedAt: .now,
            keyName: "backend"
        )
        let plain = DeviceRegistration(key: key(2), pushToken: "second")
        let earlier = change(4, "fourth", 0, isWithdrawn: true)
        let changes = (
            first: change(1, "first", 1), moved: change(3, "second", 2, isWithdrawn: true),
            second: change(2, "second", 2.5), withdrawn: change(4, "fourth", 3, isWithdrawn: true)
        )
        await loop.result {
            known.record(earlier)
            known.record([changes.first], of: full)
            known.record([changes.moved, changes.second], of: plain)
            known.record(changes.withdrawn)
        }
        let all = KnownDevices.merged(await value.all())
        #expect(all.map(\.change.key.userID) == [1, 3, 2, 4])
        #expect(all.map(\.change.pushToken) == ["first", "second", "second", "fourth"])
        #expect(all.map(\.change.isWithdrawn) == [false, true, false, true])
        #expect(all.map { $0.change.changedAt.timeIntervalSinceReferenceDate } == [1, 2, 2.5, 3])
        #expect(String(describing: all[0].registration) == String(describing: DeviceRegistration?.some(full)))
        #expect(String(describing: all[2].registration) == String(describing: DeviceRegistration?.some(plain)))
        #expect(all[1].registration == nil && all[3].registration == nil)
    }
}
