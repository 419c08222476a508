import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoSandbox
import Postgres
import TestSupport
import Testing

@testable import PushService

/// A message for Android with a marker, by which the sandbox tells pushes apart.
func gcm(_ marker: String = "m") -> JSONValue { ["for_gcm": ["custom_field": ["marker": .string(marker)]]] }

extension Caller {
    /// The same with an `Idempotency-Key`.
    func with(idempotencyKey: String) -> Caller {
        var caller = self
        caller.headerFields[.idempotencyKey] = idempotencyKey
        return caller
    }

    /// Asks for a push and returns its path.
    func create(
        _ audience: JSONValue = ["everyone": true],
        _ message: JSONValue = gcm(),
        _ more: JSONObject = [:]
    ) async throws -> String {
        let answer = try await post("/v1/pushes", json: pushBody(audience, message, more))
        guard answer.status == 202, let path = answer.headerFields[.location] else {
            throw Refused(status: answer.status, body: answer.text)
        }
        return path
    }

    /// A push as it is shown.
    func shown(_ push: String) async throws -> JSONValue {
        let answer = try await get(push)
        guard answer.status == 200, let json = answer.json else {
            throw Refused(status: answer.status, body: answer.text)
        }
        return json
    }

    /// What became of a push's users.
    func users(_ push: String) async throws -> JSONValue? { try await shown(push)["users"] }

    /// Has an operator do something with a push, and returns the status.
    func control(_ push: String, _ control: String) async throws -> Int {
        try await post("\(push)/\(control)").status
    }

    func waitFor(_ state: String, _ push: String, within limit: Duration = .seconds(60)) async throws {
        try await eventually("\(push) is \(state)", within: limit) { try await self.state(push) == state }
    }
}

extension HTTPField.Name {
    static let idempotencyKey = unvalidated("Idempotency-Key")
}

/// The body of `POST /v1/pushes`.
func pushBody(_ audience: JSONValue, _ message: JSONValue = gcm(), _ more: JSONObject = [:]) -> JSONValue {
    var body: JSONObject = ["audience": audience, "message": message]
    for (name, value) in more.members { body[name] = value }
    return .object(body)
}

/// Users or batches as they are counted.
func counts(
    _ total: Int,
    sent: Int = 0,
    failed: Int = 0,
    uncertain: Int = 0,
    skipped: Int = 0,
    pending: Int = 0
) -> JSONValue {
    [
        "total": .integer(total), "sent": .integer(sent), "failed": .integer(failed),
        "uncertain": .integer(uncertain), "skipped": .integer(skipped), "pending": .integer(pending),
    ]
}

/// An audience of the users that are named.
func uuids(_ ids: some Sequence<Int64>) -> JSONValue { ["uuids": .array(ids.map { .integer($0) })] }

/// So many seconds from now, as it is written in requests.
func time(in seconds: Double) -> JSONValue { .string((Date() + seconds).rfc3339) }

extension TestDatabase {
    /// The time has come for all that waits to be tried again.
    func hurry() async throws {
        try await pool.write("UPDATE push_batches SET next_attempt_at = now() WHERE state = 'waiting'")
    }

    /// The leases of all servers end, as those of servers do that are dead.
    func endLeases() async throws {
        try await pool.write("UPDATE push_leases SET ends_at = now()")
    }

    /// Notes down each change of a column of `pushes` in the table `noted`.
    func note(_ column: String) async throws {
        try await pool.write("CREATE TABLE noted (value text)")
        try await pool.write(
            """
            CREATE FUNCTION note() RETURNS trigger AS $$
            BEGIN
                INSERT INTO noted VALUES (NEW.\(column)::text);
                RETURN NEW;
            END
            $$ LANGUAGE plpgsql
            """
        )
        try await pool.write(
            """
            CREATE TRIGGER note AFTER UPDATE ON pushes FOR EACH ROW
            WHEN (OLD.\(column) IS DISTINCT FROM NEW.\(column)) EXECUTE FUNCTION note()
            """
        )
    }
}

extension TestKakao {
    /// How many sends there were of each marker's users: each of them once.
    func reachedOnce(_ userIDs: some Sequence<Int64>, marker: String = "m") -> Bool {
        userIDs.allSatisfy { sandbox.timesReached($0, marker: marker) == 1 }
    }
}
