package import JSON

/// What the token endpoint did for a user, or for all users.
package struct TokenReport: Sendable, Equatable {
    /// Codes that were exchanged for tokens.
    package internal(set) var logins = 0
    /// Access tokens that were refreshed.
    package internal(set) var refreshes = 0
    /// Refreshes that superseded the refresh token.
    package internal(set) var rotations = 0
    /// Rotations whose response was replaced by a fault, or whose client had gone before it.
    package internal(set) var lostRotations = 0
    /// Refreshes in flight: from the arrival of the body until the response is handed to the connection or the
    /// connection is gone, including the delay of a fault. Requests with an unknown refresh token are left out.
    package internal(set) var inFlight = 0
    /// The highest number of refreshes of one user that were in flight at the same time.
    package internal(set) var maximumInFlight = 0
    /// Refused requests by their KOE code.
    package internal(set) var refusals: [String: Int] = [:]
    /// Uses of superseded refresh tokens, split by ``TokenReuse/isAfterDelivery``.
    package internal(set) var reusesAfterDelivery = 0
    package internal(set) var reusesBeforeDelivery = 0

    /// The counts of both.
    static func + (left: TokenReport, right: TokenReport) -> TokenReport {
        var sum = left
        sum.logins += right.logins
        sum.refreshes += right.refreshes
        sum.rotations += right.rotations
        sum.lostRotations += right.lostRotations
        sum.inFlight += right.inFlight
        sum.maximumInFlight = max(left.maximumInFlight, right.maximumInFlight)
        sum.refusals.merge(right.refusals) { $0 + $1 }
        sum.reusesAfterDelivery += right.reusesAfterDelivery
        sum.reusesBeforeDelivery += right.reusesBeforeDelivery
        return sum
    }
}

/// A request with a refresh token in whose place another one had been issued.
package struct TokenReuse: Sendable, Equatable {
    package let userID: Int64
    /// The SHA-256 of the refresh token.
    package let tokenSHA256: [UInt8]
    /// The time at which the request arrived.
    package let unixMilliseconds: Int64
    /// Whether the response with the successor had been handed to its connection before. The connection was open, and
    /// no fault replaced the response; whether the client has read it, the sandbox cannot know.
    package let isAfterDelivery: Bool
}

extension TokenReport {
    func writeMembers(to json: inout JSONWriter.Members) {
        json.member("logins", logins)
        json.member("refreshes", refreshes)
        json.member("rotations", rotations)
        json.member("lost_rotations", lostRotations)
        json.member("in_flight", inFlight)
        json.member("max_in_flight", maximumInFlight)
        json.counts("refusals", refusals)
        json.member("reuses_after_delivery", reusesAfterDelivery)
        json.member("reuses_before_delivery", reusesBeforeDelivery)
    }
}

extension TokenReuse: JSONWritable {
    package func write(to writer: inout JSONWriter) {
        writer.object {
            $0.member("user_id", String(userID))
            $0.member("used_at", WallClock.text(unixMilliseconds: unixMilliseconds))
            $0.member("after_delivery", isAfterDelivery)
        }
    }
}
