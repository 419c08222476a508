/// The intervals by which tokens are refreshed. A server uses the defaults; tests shorten them.
package struct RefreshIntervals: Sendable {
    /// The duration of a lease. A call to Kakao begins in its first third and takes at most another third, so that a
    /// lease ends before its refresh only if the server was stopped or cannot reach the database.
    package var lease = Duration.seconds(30)
    /// The pause after Kakao reports that too many tokens were issued to the user (KOE237). Kakao counts over ten minutes.
    package var quotaPause = Duration.seconds(600)

    /// The part of a lease within which the call to Kakao must begin.
    var startLimit: Duration { lease / 3 }
    /// The time limit of the call to Kakao.
    var callTimeout: Duration { lease / 3 }

    /// Creates the intervals of production.
    package init() {}

    /// Creates the intervals of production, all scaled so that a lease lasts for `lease`.
    package init(lease: Duration) {
        let production = RefreshIntervals()
        self.lease = lease
        quotaPause = production.quotaPause * (lease / production.lease)
    }
}
