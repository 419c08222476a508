import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import Identity
import Runtime
import Schemas

/// The operations of users' apps: they report that a push was opened, and read the pushes that were sent to their user.
struct AppPushRoutes: RouteCollection {
    static let title = "Pushes of the app's user"
    static let operations = [reporting, listing]

    let opens: PushOpenStore
    /// `nil` if the settings have no inbox.
    let inbox: PushInbox?
    /// Shared by all event loops, as is `pagesPerMinute`.
    let opensPerHour: RequestLimit<Int64>
    let pagesPerMinute: RequestLimit<Int64>
    let counts: LoopCounts<OpenOutcome>.Own

    // MARK: Opened pushes

    private static let reporting = Operation(
        "reportPushOpened",
        .post,
        "/v1/pushes/{id}/opened",
        .user,
        "Reports that the app's user has opened a push. It counts once, and only if the push was sent to the user.",
        path: [PushRoutes.id],
        maximumBodyBytes: RequestSize.small,
        answers: [.empty(.noContent, "The report is stored, or it does not count. The response does not say which.")],
        problems: [.notFound],
        handler: report
    )

    /// Responds 204 whether or not the report counts, so that the response reveals neither which pushes exist nor their users. An invalid
    /// id is 404: the app takes it from the wrong place.
    @Sendable private func report(_ call: Call) async throws -> Response {
        let open = PushOpen(pushID: try PushRoutes.id(call), userID: try call.ownUserID)
        if let wait = opensPerHour.take(from: open.userID) {
            throw Problem.tooManyRequests("Too many opened pushes of this user.", wait: wait)
        }
        counts.add(to: try await opens.record(open))
        return Response(.noContent)
    }

    // MARK: The inbox

    private static let since = Field.optional(
        "since",
        .time,
        "Only pushes whose sending began since then, of those of `pushes.inbox_days`. A push that is sent for hours reaches some users long "
            + "after its `sent_at`: to miss none, send the latest known `sent_at` minus one day, and drop known ids."
    )

    private static let listing = Operation(
        "listOwnPushes",
        .get,
        "/v1/me/pushes",
        .user,
        "Lists the pushes of the last days that were sent to the app's user, the latest first.",
        query: [since] + Page<InboxCursor>.fields,
        answers: [
            .page(
                of: InboxPush.shape,
                "The pushes, at most \(PushInbox.maxPushes). A page may have fewer than `limit` items, or none, although there is a next one."
            )
        ],
        problems: [.notConfigured],
        needs: NeededSetting("pushes.inbox_days") { $0.inbox != nil },
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        let page = try Page<InboxCursor>(call)
        let since = try call[Self.since]
        let userID = try call.ownUserID
        if let wait = pagesPerMinute.take(from: userID) {
            throw Problem.tooManyRequests("Too many pages of the inbox of this user.", wait: wait)
        }
        let request = InboxRequest(userID: userID, since: since, before: page.cursor)
        let (pushes, next) = try await inbox?.page(request, limit: page.limit) ?? ([], nil)
        return Page.response(pushes, InboxPush.shape, next: next)
    }
}
