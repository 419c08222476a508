import Endpoints
import FoundationEssentials
import HTTPClient
import HTTPServer
package import HTTPTypes
package import JSON
import KakaoSandbox
import Postgres
import TestSupport
package import Testing

/// Returns a message for Android with a marker, by which the sandbox distinguishes pushes.
package func gcm(_ marker: String = "m") -> JSONValue { ["for_gcm": ["custom_field": ["marker": .string(marker)]]] }

extension TestClient {
    /// Returns a copy with an `Idempotency-Key`.
    package func with(idempotencyKey: String) -> TestClient {
        var caller = self
        caller.headerFields[.idempotencyKey] = idempotencyKey
        return caller
    }

    /// Creates a push and returns its path.
    package func create(
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

    /// Returns the JSON of a push.
    package func shown(_ push: String) async throws -> JSONValue {
        let answer = try await get(push)
        guard answer.status == 200, let json = answer.json else {
            throw Refused(status: answer.status, body: answer.text)
        }
        return json
    }

    /// Returns the JSON of a push as lists, events and webhooks have it: without its message and its app.
    package func summary(_ push: String) async throws -> JSONValue {
        var object = try await shown(push).object ?? [:]
        for name in ["message", "phones", "app"] { object[name] = nil }
        return .object(object)
    }

    /// Returns the counts of a push's users.
    package func users(_ push: String) async throws -> JSONValue? { try await shown(push)["users"] }

    /// Performs an operation on a push and returns the response's status.
    package func control(_ push: String, _ control: String) async throws -> Int {
        try await post("\(push)/\(control)").status
    }

    /// Waits until a push is in a state. Records an issue if the push does not change for a time, since its whole way depends on
    /// the machine's speed.
    ///
    /// - Parameter limit: The time without a change of the push after which the test fails.
    package func waitFor(
        _ state: String,
        _ push: String,
        within limit: Duration = .seconds(60),
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        var seen: [JSONValue?] = []
        var isDone = false
        while !isDone {
            let before = seen
            try await eventually("\(push) is \(state)", within: limit, sourceLocation: sourceLocation) {
                let shown = try await get(push).json
                seen = [shown?["state"], shown?["users"], shown?["batches"]]
                isDone = shown?["state"] == .string(state)
                return isDone || seen != before
            }
        }
    }
}

extension HTTPField.Name {
    package static let idempotencyKey = unvalidated("Idempotency-Key")
}

/// Returns the body of `POST /v1/pushes`.
package func pushBody(_ audience: JSONValue, _ message: JSONValue = gcm(), _ more: JSONObject = [:]) -> JSONValue {
    var body: JSONObject = ["audience": audience, "message": message]
    for (name, value) in more.members { body[name] = value }
    return .object(body)
}

/// Returns the JSON of the counts of users.
package func counts(
    _ total: Int,
    sent: Int = 0,
    failed: Int = 0,
    uncertain: Int = 0,
    skipped: Int = 0,
    pending: Int = 0,
    mayRepeat: Int = 0
) -> JSONValue {
    [
        "total": .integer(total), "sent": .integer(sent), "failed": .integer(failed),
        "uncertain": .integer(uncertain), "skipped": .integer(skipped), "pending": .integer(pending),
        "may_repeat": .integer(mayRepeat),
    ]
}

/// Returns the JSON of the counts of batches.
package func batchCounts(_ total: Int, sent: Int = 0, failed: Int = 0, uncertain: Int = 0) -> JSONValue {
    [
        "total": .integer(total), "sent": .integer(sent), "failed": .integer(failed),
        "uncertain": .integer(uncertain), "skipped": 0, "pending": .integer(total - sent - failed - uncertain),
    ]
}

/// Returns an audience of these users.
package func uuids(_ ids: some Sequence<Int64>) -> JSONValue { ["uuids": .array(ids.map { .integer($0) })] }

/// Returns the time this number of seconds from now, in the form of requests.
package func time(in seconds: Double) -> JSONValue { .string((Date() + seconds).rfc3339) }

extension TestDatabase {
    /// Makes all waiting batches due for their next attempt.
    package func hurry() async throws {
        try await pool.write("UPDATE push_batches SET next_attempt_at = now() WHERE state = 'waiting'")
    }

    /// Expires the leases of all servers, as if the servers had crashed.
    package func endLeases() async throws {
        try await pool.write("UPDATE work_leases SET ends_at = now()")
    }

    /// Records each change of a column of `pushes` in the table `noted`.
    package func note(_ column: String) async throws {
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
    /// Returns whether each of these users was reached exactly once by the pushes with this marker.
    package func reachedOnce(_ userIDs: some Sequence<Int64>, marker: String = "m") -> Bool {
        userIDs.allSatisfy { sandbox.timesReached($0, marker: marker) == 1 }
    }
}
