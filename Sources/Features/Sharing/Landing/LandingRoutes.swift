import Endpoints
import EventLoop
import HTTPServer
import HTTPTypes
import JSON
import Net
import Schemas
import Templates

/// `GET /s/{id}`: the landing address of a share, which counts a visit and redirects to a link of the share.
struct LandingRoutes: RouteCollection {
    static let title = "Landing addresses"
    static let operations = [landing]

    /// The time after which a visitor is redirected, whether or not the visit is counted yet.
    private static let waitLimit = Duration.seconds(2)
    /// The time for counting a visit.
    private static let countLimit = Duration.seconds(30)

    let store: ShareStore
    let cache: ShareCache
    /// Recognizes visitors; `nil` without a key, when there are no shares either.
    let signer: ShareSigner?
    let domains: RegisteredDomains
    let limits: LandingLimits
    let counts: LandingCounts

    private static let id = Field.path("id", .shareID, "The id of the share.")
    private static let link = Field.optional(
        "l",
        Kind<Int32>.integer(0...99),
        default: 0,
        shown: 0,
        "The number of the link."
    )

    private static let landing = Operation(
        "followShare",
        .get,
        "/s/{id}",
        .anyone(
            .limited(
                "Visits of shares that the server does not know, and visits that are counted, are limited by address. Others are redirected without a query."
            )
        ),
        "Counts a visit and redirects to a link of the share.",
        path: [id],
        query: [link],
        // Messengers and browsers append parameters of their own.
        unknownFields: .ignored,
        answers: [
            .empty(.found, "The link.", headers: [Answer.Header("Location", "The address of the link.")])
        ],
        problems: [.notFound, .tooManyRequests, .databaseUnavailable],
        handler: follow
    )

    @Sendable private func follow(_ call: Call) async throws -> Response {
        let number = try Int(call[Self.link])
        let id = try call.identifier(Self.id, orThrow: Self.notFound)
        let links = try await cache.links(of: id, store) { try limits.chargeLookUp(call.request) }
        guard let links, number < links.count,
            // A domain may have been removed from the settings since.
            domains.contains(address: links[number])
        else { throw Self.notFound }
        if let visitor = visitor(call.request) {
            if limits.admitsCount(call.request) {
                await count(Landing(shareID: id, visitor: visitor), call.request.loop)
            } else {
                counts.countLimited()
            }
        }
        return Response(
            .found,
            headerFields: [.location: Self.encoded(links[number]), .cacheControl: "no-store", .robotsTag: "noindex"]
        )
    }

    /// Returns an address as it may stand in a header field: with other characters than ASCII percent-encoded (RFC 3986
    /// §2.1). The host of a registered domain has none.
    private static func encoded(_ address: String) -> String {
        guard !address.utf8.allSatisfy({ $0 < 0x80 }) else { return address }
        var encoded: [UInt8] = []
        for octet in address.utf8 {
            if octet < 0x80 {
                encoded.append(octet)
            } else {
                encoded += "%\(String(octet, radix: 16, uppercase: true))".utf8
            }
        }
        return String(decoding: encoded, as: UTF8.self)
    }

    /// Returns the code of a visitor who counts; `nil` for a robot, and for a request that only looks.
    private func visitor(_ request: Request) -> [UInt8]? {
        guard request.method != .head, let agent = request[.userAgent], !agent.isEmpty, !Robots.include(agent) else {
            return nil
        }
        return signer?.visitor(address: request.clientAddress.host, userAgent: agent)
    }

    /// Counts a visit. Returns when it is counted, or after ``waitLimit``; it may be counted even then.
    private func count(_ landing: Landing, _ loop: EventLoop) async {
        let counting = Task(executorPreference: loop) {
            do {
                try await store.count(landing, within: Self.countLimit)
            } catch {
                counts.countLost()
            }
        }
        _ = try? await loop.run(within: Self.waitLimit) { await counting.value }
    }

    private static var notFound: Problem { Problem(of: .notFound, "There is no such share, or it has no such link.") }
}

extension HTTPField.Name {
    fileprivate static let robotsTag = unvalidated("X-Robots-Tag")
}
