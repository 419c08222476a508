import Endpoints
import FoundationEssentials
import HTTPServer
import JSON
import Postgres
import Schemas

/// The times between which a push or a message is sent, as its request gives them.
package struct SendingTimes: Sendable {
    /// When to send; `nil` for at once.
    package var sendAt: Date?
    /// The time after which nothing is sent; `nil` for none.
    package var expiresAt: Date?

    package init() {}

    package static let fields: [any FieldDeclaration] = [sendAtField, expiresAtField]

    private static let sendAtField = Field.optional(
        "send_at",
        .time,
        "When to send. Without it, at once. A time that is more than ten minutes past is refused."
    )
    private static let expiresAtField = Field.optional("expires_at", .time, "The time after which nothing is sent.")

    /// Reads the fields of a request. Whether they are past is checked when the object is stored, so that a repeated request
    /// gets the first response at any time.
    ///
    /// - Throws: ``Problem`` for an invalid field, or if nothing could be sent between the times.
    package init(_ call: Call) throws {
        sendAt = try call[Self.sendAtField]
        expiresAt = try call[Self.expiresAtField]
        if let sendAt, let expiresAt, expiresAt <= sendAt {
            throw Problem.field(Self.expiresAtField.name, "after send_at")
        }
    }

    /// How far `send_at` may be past: a request takes a moment, and clocks differ. A time long past is a mistake, and would send
    /// to everyone at once.
    package static let tolerance: SQL = "interval '10 minutes'"
    private static let toleranceSeconds = 600.0

    /// Throws the problem of a time that is past by PostgreSQL's clock.
    ///
    /// - Throws: ``Problem`` 400 with both times; ``PostgresError``.
    package func check(_ pool: PostgresPool) async throws {
        guard sendAt != nil || expiresAt != nil else { return }
        if let problem = problem(at: try await pool.read(ReadTransactionTime()).first ?? Date()) { throw problem }
    }

    /// Returns the problem of a time that is past; `nil` if there is none.
    ///
    /// - Parameter now: The time by PostgreSQL's clock.
    func problem(at now: Date) -> Problem? {
        if let sendAt, sendAt < now - Self.toleranceSeconds {
            return Self.problem(
                Self.sendAtField.name,
                sendAt,
                now,
                allowed: "at least \((now - Self.toleranceSeconds).rfc3339)",
                "is more than ten minutes past: PostgreSQL's clock says \(now.rfc3339). To send at once, leave it out."
            )
        }
        if let expiresAt, expiresAt <= now {
            return Self.problem(
                Self.expiresAtField.name,
                expiresAt,
                now,
                allowed: "later than \(now.rfc3339)",
                "is past: PostgreSQL's clock says \(now.rfc3339)."
            )
        }
        return nil
    }

    private static func problem(
        _ field: String,
        _ given: Date,
        _ now: Date,
        allowed: String,
        _ reason: String
    ) -> Problem {
        Problem(
            of: .invalidField,
            "\(field) \(given.rfc3339) \(reason)",
            members: [
                "field": .string(field), "allowed": .string(allowed), "given": .string(given.rfc3339),
                "now": .string(now.rfc3339),
            ]
        )
    }
}
