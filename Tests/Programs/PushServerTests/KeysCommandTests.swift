import Endpoints
import Identity
import ServiceTesting
import TestSupport
import Testing

/// Tests of `push-server keys` on a terminal.
@Suite(.timeLimit(.minutes(5))) struct KeysCommandTests {
    @Test("On a terminal, times are those of the zone of the settings, unless --utc is given")
    func localTimes() async throws {
        try await withDatabaseAndKakao { database, kakao in
            var environment = RunningProgram.environment(database, kakao)
            environment["LOG_LEVEL"] = "error"
            environment["PUSHES_TIME_ZONE"] = "Asia/Kathmandu"
            environment["PATH"] = "/usr/bin:/bin"
            environment["ASAN_OPTIONS"] = "detect_leaks=0"
            _ = try await OperatorKeyStore(pool: database.pool).create(name: "me", scopes: [.read], expiresAt: nil)
            let list = "'\(try Program.path("push-server"))' keys list"
            func listed(_ command: [String]) async throws -> String {
                let result = try await Program.run(command, environment: environment)
                #expect(result.status == 0, "\(result.text)")
                return result.text
            }
            let local = try await listed(["script", "-qec", list, "/dev/null"])
            #expect(local.contains(/read +[-0-9]{10} [:0-9]{8} \+05:45/), "\(local)")
            for command in [["script", "-qec", "\(list) --utc", "/dev/null"], ["sh", "-c", list]] {
                let utc = try await listed(command)
                #expect(utc.contains(/read +[-0-9]{10}T[:0-9]{8}Z/), "\(utc)")
            }
        }
    }
}
