import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import Postgres
import Runtime
import Schemas
import Templates

/// `/v1/link/shares`: what apps need to share a message, and what shares led to.
struct ShareRoutes: RouteCollection {
    static let title = "Shares"
    static let operations = [creating, listing, showing, converting]

    /// The time after which a signature expires, unless the request says otherwise.
    private static let lifetime: TimeInterval = 30 * 86_400
    private static let maximumLifetime: TimeInterval = 3650 * 86_400

    let store: ShareStore
    let cache: ShareCache
    let audit: AuditLog
    /// Signs the arguments; `nil` without a key.
    let signer: ShareSigner?
    let linter: TemplateLinter
    let domains: RegisteredDomains
    /// Replaces references to images in templates.
    let images: ImageReferences
    /// The identity of the app; `nil` if it is not configured.
    let app: ShareApp?
    /// The client for calls with the app key; `nil` if the server makes none.
    let kakao: KakaoClient?
    /// Returns the URL at which phones reach the server; `nil` if it is not known.
    let publicURL: @Sendable () -> String?

    // MARK: Creating

    private static let args = Field.optional(
        "args",
        .textObject(
            count: 50,
            names: 1...64,
            values: .text(0...1000),
            rule: "other than share, and not made up of capitals, digits and underscores only, like Kakao's own"
        ) { $0 != ShareSigner.argument && !ShareSigner.isOfKakao($0) },
        default: [:],
        shown: [:],
        "The custom arguments, which Kakao sends back in its callback."
    )
    private static let campaign = Field.optional("campaign", .text(1...100), "A name for shares that belong together.")
    private static let expiresAt = Field.optional(
        "expires_at",
        .time,
        "When the signature of the arguments expires: within ten years, by default after 30 days."
    )
    private static let track = Field.optional(
        "track",
        .boolean,
        default: false,
        shown: false,
        "Whether the links of the template lead through the share's landing addresses, so that visits are counted."
    )

    private static let creating = Operation(
        "createShare",
        .post,
        "/v1/link/shares",
        .operator(.sharing),
        "Creates a share: signed arguments for Kakao's SDK, and addresses that open the picker of friends.",
        body: .fields(MessageContent.fields + [args, campaign, expiresAt, track]),
        maximumBodyBytes: RequestSize.small,
        answers: [.json(.created, CreatedShare.shape, "The share.", headers: [.location])],
        problems: [
            .invalidTemplate, .unknownImage, .notConfigured, .refusedByKakao, .kakaoUnavailable, .badGateway,
            .serverRefused,
            .tooManyUploads,
        ],
        auditing: .handler,
        handler: create
    )

    @Sendable private func create(_ call: Call) async throws -> Response {
        let given = try MessageContent(call)
        let args = try call[Self.args]
        let (campaign, track) = (try call[Self.campaign], try call[Self.track])
        let expiresAt = try Self.expiry(call)
        guard let signer, signer.canSign else {
            throw Problem(of: .notConfigured, "Shares are signed. Set sharing.signing_key.")
        }
        // Whatever is wrong with a template is said before its images are uploaded.
        var findings = given.findings(linter)
        try Problem.requireAccepted(findings)
        let content = try await given.resolved(images)
        let id = ShareID(.v7())
        let links = ShareLinks(of: content, domains)
        let landing = links.addresses.isEmpty ? nil : publicURL().map { id.landingAddress(at: $0) }
        let shown = try tracked(content, track, id, links, landing)
        if shown.template != given.template {
            findings = shown.findings(linter)
            try Problem.requireAccepted(findings)
        }

        var callbackArgs = JSONObject(args)
        let sorted = args.map { (name: $0.key, value: $0.value) }
        callbackArgs[ShareSigner.argument] = .string(signer.signature(of: id, expiresAt: expiresAt, sorted))
        let message = ShareMessage(content: shown, callbackArgs: callbackArgs, app: app)
        let validation = try await validation(of: message)
        let size = message.byteCount(validation)
        findings += [Finding.messageSize(size), Finding.callbackSize(message.callbackByteCount)].compactMap(\.self)
        try Problem.requireAccepted(findings)

        let share = Share(
            id: id,
            campaign: campaign,
            templateID: content.templateID,
            args: args,
            links: links.addresses,
            expiresAt: expiresAt
        )
        let record = call.auditRecord(of: .object(id.text))
        _ = try await store.pool.write(InsertShare(share: share), recording: record) as Int
        let created = CreatedShare(
            share: share,
            callbackArgs: callbackArgs,
            webAddress: message.webAddress,
            landingAddress: landing,
            executionParams: ShareLinks.executionParams(id, links.executionParams),
            byteCount: size,
            findings: findings,
            template: shown.template,
            validation: validation.flatMap { validation in
                app.map { (talkAddress: message.talkAddress(validation, $0), answer: validation) }
            }
        )
        var response = Response.json(CreatedShare.shape.json(created), status: .created)
        response.headerFields[.location] = "/v1/link/shares/\(id.text)"
        return response
    }

    private static func expiry(_ call: Call) throws -> Date {
        let now = Date()
        guard let date = try call[expiresAt] else { return now.addingTimeInterval(lifetime) }
        guard date > now, date.timeIntervalSince(now) <= maximumLifetime else {
            throw Problem.field(expiresAt.name, "a time in the next ten years")
        }
        return date
    }

    /// Returns the content with its links replaced by landing addresses, if it is to be tracked.
    private func tracked(
        _ content: MessageContent,
        _ track: Bool,
        _ id: ShareID,
        _ links: ShareLinks,
        _ landing: String?
    ) throws -> MessageContent {
        guard track else { return content }
        guard case .template(let template) = content else {
            throw Problem.field(Self.track.name, "false without template", "The links of other messages are Kakao's.")
        }
        guard !domains.isEmpty, publicURL() != nil else {
            throw Problem(of: .notConfigured, "Landing addresses need http.public_url and sharing.domains.")
        }
        return .template(
            links.tracked(template, id) { number in number == 0 ? landing ?? "" : "\(landing ?? "")?l=\(number)" }
        )
    }

    /// Returns Kakao's answer to the check of a message; `nil` if the server does not ask.
    private func validation(of message: ShareMessage) async throws -> TemplateValidation? {
        guard let kakao else { return nil }
        do throws(KakaoError) {
            return try await message.validate(kakao)
        } catch {
            throw Problem(error, about: "the message", isIdempotent: true)
        }
    }

    // MARK: Showing

    private static let listing = Operation(
        "listShares",
        .get,
        "/v1/link/shares",
        .operator(.read),
        "Lists shares with what they led to, the latest first.",
        query: [campaign] + Page<ShareID>.fields,
        answers: [.page(of: CountedShare.shape, "The shares.")],
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        let page = try Page<ShareID>(call)
        let shares = try await store.list(
            campaign: try call[Self.campaign],
            before: page.cursor,
            limit: page.limit + 1
        )
        return page.response(shares, CountedShare.shape, cursor: \.id)
    }

    private static let id = Field.path("id", .shareID, "The id of the share.")

    private static let showing = Operation(
        "getShare",
        .get,
        "/v1/link/shares/{id}",
        .operator(.read),
        "Returns a share with what it led to.",
        path: [id],
        answers: [.json(.ok, CountedShare.shape, "The share.")],
        problems: [.notFound],
        handler: show
    )

    @Sendable private func show(_ call: Call) async throws -> Response {
        let id = try call.identifier(Self.id, orThrow: Self.notFound)
        guard let share = try await store.pool.read(FindShare(id: id)).first else { throw Self.notFound }
        return .json(CountedShare.shape.json(share))
    }

    // MARK: Conversions

    private static let event = Field.required("event", .text(1...64), "What the user did, such as `purchase`.")
    private static let userID = Field.required("user_id", .userID, "The user.")

    private static let converting = Operation(
        "reportConversion",
        .post,
        "/v1/link/shares/{id}/conversions",
        .operator(.sharing),
        "Counts that a share led a user to an event, once for each user and event.",
        path: [id],
        body: .fields([event, userID]),
        answers: [.empty(.noContent, "The conversion is counted, now or before.")],
        problems: [.notFound],
        auditing: .handler,
        handler: convert
    )

    @Sendable private func convert(_ call: Call) async throws -> Response {
        let (event, userID) = (try call[Self.event], try call[Self.userID])
        let id = try call.identifier(Self.id, orThrow: Self.notFound)
        let conversion = Conversion(shareID: id, event: event, userID: userID)
        guard try await cache.links(of: id, store) != nil else { throw Self.notFound }
        return try await audit.recording(call, of: .user(userID, object: id.text)) {
            try await store.count(conversion)
            return Response(.noContent)
        }
    }

    static var notFound: Problem { Problem(of: .notFound, "There is no such share.") }
}

extension ShareID: PageCursor {
    package init?(cursor: String) { self.init(cursor) }

    package var cursor: String { text }
}

extension MessageContent {
    /// The template to share; `nil` for other contents.
    fileprivate var template: JSONObject? {
        guard case .template(let template) = self else { return nil }
        return template
    }
}

/// The response to the creation of a share.
private struct CreatedShare: Sendable {
    let share: Share
    let callbackArgs: JSONObject
    let webAddress: String?
    let landingAddress: String?
    let executionParams: String
    let byteCount: Int
    let findings: [Finding]
    let template: JSONObject?
    /// Kakao's answer, and the address that opens KakaoTalk; `nil` if Kakao was not asked.
    let validation: (talkAddress: String, answer: TemplateValidation)?

    static let shape = Shape<CreatedShare>(
        "CreatedShare",
        [
            .member("id", .shareID, "The id of the share.", \.share.id),
            .member("expires_at", .time, "When the signature of the arguments expires.", \.share.expiresAt),
            .member("callback_args", .object, "The arguments for the SDK's `serverCallbackArgs`.", \.callbackArgs),
            .nullable(
                "sharer_url",
                .text,
                "Opens Kakao's web page that lets a user choose friends; `null` without the app key and `sharing.ka_header`.",
                \.webAddress
            ),
            .nullable(
                "landing_url",
                .text,
                "Leads to the first link, and is counted; `null` without a link on a registered domain, or without `http.public_url`.",
                \.landingAddress
            ),
            .member("execution_params", .text, "Execution params that name the share.", \.executionParams),
            .member(
                "size_bytes",
                .count,
                "The size of the message with everything that travels with it: a lower limit if Kakao was not asked."
            ) { Int64($0.byteCount) },
            .array("findings", Finding.shape.kind, "What Kakao would cut or drop.", \.findings),
            .optional("template", .object, "The template to share.", \.template),
            .optional("kakaolink_url", .text, "Opens KakaoTalk on a phone.", \.validation?.talkAddress),
            .optional("warning_msg", .object, "Kakao's warnings about the message.", \.validation?.answer.warnings),
            .optional(
                "argument_msg",
                .object,
                "Kakao's warnings about template arguments.",
                \.validation?.answer.argumentWarnings
            ),
        ]
    )
}
