import ArgumentParser
import Endpoints
import FoundationEssentials
import JSON
import Pushes
import Runtime
import Settings

extension PushesCommand {
    struct Send: ServerCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send a push and print its id.",
            discussion: """
                On a terminal, the number of users and the name of the app have to be confirmed, unless all recipients are named with \
                --user or are the testers.

                A push to many users may have to wait for an approval with another key: push-server pushes approve.

                If the connection is lost before the response, the request is retried with the same Idempotency-Key, so the push is \
                stored only once.
                """
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var recipients: RecipientOptions

        @Option(help: "Kakao's push_message: a file, the JSON itself, or - for standard input.")
        var message: String

        @Option(help: "The name of the push, shown in lists.")
        var name: String?

        @Option(help: "The kind of push. The law has rules for advertising: see docs/korea.md.")
        var kind: PushKind?

        @Option(help: "The time to send the push: \(LocalTime.forms). (default: now)")
        var at: String?

        @Option(help: "The time when unsent batches expire, in the same forms. (default: never)")
        var expires: String?

        @Option(help: "The maximum number of users per second.")
        var usersPerSecond: Int?

        @Option(help: "Whether to repeat a request that Kakao did not respond to. (default: at_least_once)")
        var delivery: Delivery?

        @Flag(help: "Also send to users without a device on this server: Kakao may have their tokens.")
        var includeUnknown = false

        @Flag(help: "Send nothing. Print the numbers of users and requests, and the first requests.")
        var dryRun = false

        @OptionGroup var idempotency: IdempotencyOptions

        @Flag(help: "Show the progress, as watch does.")
        var watch = false

        @OptionGroup var confirmation: ConfirmationOptions

        func validate() throws {
            guard !watch || !dryRun else { throw ValidationError("--watch cannot be combined with --dry-run.") }
            guard !includeUnknown || recipients.namesUsers else {
                throw ValidationError("--include-unknown needs --user, --users-file or --audience.")
            }
            if recipients.everyone, !dryRun { try confirmation.require(for: "--everyone") }
        }

        func run(on server: ServerClient) async throws {
            let message = try Self.readMessage(message)
            let key = idempotency.key()
            let (audience, upload) = try recipients.audience(idempotencyKey: key)
            let times = Times(
                sendAt: try await server.time(at, of: "--at"),
                expiresAt: try await server.time(expires, of: "--expires")
            )
            let push = request(message, to: audience, times)
            if let upload { try await upload.run(on: server) }
            let answer: JSONValue
            do {
                answer = try await send(push, idempotencyKey: key, on: server)
            } catch {
                await upload?.cleanUp(on: server)
                throw error
            }
            await upload?.cleanUp(on: server)
            if dryRun {
                try await DryRun.write(answer, of: push, server)
            } else {
                try await Self.report(ShownPush(answer), watching: watch, server)
            }
        }

        /// The times of the options by RFC 3339.
        struct Times {
            var sendAt: String?
            var expiresAt: String?
        }

        /// Returns the body of the request, without unset members. Equal options have equal bytes, which `Idempotency-Key`
        /// requires.
        func request(_ message: JSONValue, to audience: PushAudience?, _ times: Times) -> JSONObject {
            var body = JSONObject()
            if let audience { body["audience"] = audience.requestJSON } else { body["to_testers"] = true }
            if !recipients.exclusion.isEmpty { body["except"] = recipients.exclusion.json }
            body["message"] = message
            body["name"] = name.map { .string($0) }
            body["kind"] = kind.map { .string($0.rawValue) }
            // The server validates the times.
            body["send_at"] = times.sendAt.map { .string($0) }
            body["expires_at"] = times.expiresAt.map { .string($0) }
            body["users_per_second"] = usersPerSecond.map { .integer($0) }
            body["delivery"] = delivery.map { .string($0.rawValue) }
            if includeUnknown { body["skip_unknown"] = false }
            if dryRun { body["dry_run"] = true }
            return body
        }

        /// Sends the push, or performs the dry run, and returns the response. Asks the operator first if the recipients may be
        /// more than expected.
        ///
        /// - Throws: `ExitCode` if the operator declines.
        private func send(
            _ push: JSONObject,
            idempotencyKey key: String,
            on server: ServerClient
        ) async throws -> JSONValue {
            func create(_ push: JSONObject) async throws -> JSONValue {
                try await server.create("/v1/pushes", push, idempotencyKey: key, timeout: ServerClient.longTimeout)
            }
            if !dryRun, recipients.mayBeMany, confirmation.asks {
                var preview = push
                preview["dry_run"] = true
                try await Self.confirm(push, try await create(preview), server)
            }
            do {
                return try await create(push)
            } catch {
                if !dryRun { IdempotencyOptions.adviseRetry(after: error, key: key) }
                throw error
            }
        }

        /// Asks the operator whether to send a push.
        ///
        /// - Parameters:
        ///   - push: The body of the request. Of a copy, it also has what the copy takes over.
        ///   - dryRun: The result of its dry run.
        /// - Throws: `ExitCode` if the operator declines.
        static func confirm(_ push: JSONObject, _ dryRun: JSONValue, _ server: ServerClient) async throws {
            let times = try await server.timesOfQuestion()
            let rows = DryRun.summary(of: push, dryRun, times, now: Date()) + (await server.stoppedSender())
            for line in Text.table(rows) { Terminal.writeError(line) }
            let question = DryRun.question(times.shown(dryRun), server: server.url)
            try Terminal.confirm(question, orPrint: "Nothing was sent.")
        }

        /// Prints the id of a push that was created, and what has to be known about it, and watches it on request.
        static func report(_ push: ShownPush, watching: Bool, _ server: ServerClient) async throws {
            Terminal.writeLine(push.id)
            if push.awaitsApproval { Terminal.writeError(push.approvalAdvice) }
            try await server.reportWaiting(of: push)
            guard watching, let id = UUID(uuidString: push.id) else { return try await server.reportWarnings(of: push) }
            try await PushWatcher(server: server, id: id, hasAnswered: true).run()
        }

        private static func readMessage(_ source: String) throws -> JSONValue {
            let bytes: [UInt8]
            if source == "-" {
                bytes = Terminal.readInput(limit: JSONValue.maximumBytes)
            } else if source.first(where: { !$0.isWhitespace }) == "{" {
                bytes = Array(source.utf8)
            } else {
                guard let contents = FileContents.read(source) else {
                    throw CommandFailure.ofArguments(
                        "\(source) cannot be read. --message must be a file, JSON, or - for standard input."
                    )
                }
                bytes = contents
            }
            do {
                return try JSONValue(parsing: bytes)
            } catch {
                throw CommandFailure.ofArguments("The message is not valid JSON: \(error).")
            }
        }
    }
}

/// The options for the recipients of a push.
struct RecipientOptions: ParsableArguments {
    @Option(help: "A user's id. Repeat the option for several users.", transform: parseUser)
    var user: [Int64] = []

    @Option(help: "A file of up to 1 MiB with user ids, one per line. More than 10,000 are uploaded as an audience.")
    var usersFile: String?

    @Option(help: "The name of a stored audience. With --users-file, the name to store the users under permanently.")
    var audience: String?

    @Option(help: "Users with a device that has this tag. Repeat the option for devices with any of several tags.")
    var tagAny: [String] = []

    @Option(help: "Users with a device that has this tag. Repeat the option for devices with all of several tags.")
    var tagAll: [String] = []

    @Flag(help: "All users with a device.")
    var everyone = false

    @Flag(help: "The testers, whom the server's settings name.")
    var toTesters = false

    @Option(help: "Leave out users with a device that has this tag. Repeat the option for several tags.")
    var exceptTag: [String] = []

    @Option(help: "Leave out the users of this stored audience.")
    var exceptAudience: AudienceName?

    @Option(
        help:
            "Leave out users whom this push has reached, may have reached or will reach. Repeat it for several pushes.",
        transform: PushArgument.parse
    )
    var exceptPush: [UUID] = []

    /// The users to leave out.
    var exclusion: PushExclusion {
        var exclusion = PushExclusion()
        exclusion.tags = exceptTag
        exclusion.audience = exceptAudience
        exclusion.pushes = exceptPush
        return exclusion
    }

    /// Whether the operator has not named each of the recipients, so that they may be more than expected.
    var mayBeMany: Bool { user.isEmpty && !toTesters }

    /// Whether the recipients are listed by user id or audience, so that some may have no device.
    var namesUsers: Bool { !user.isEmpty || usersFile != nil || audience != nil }

    func validate() throws {
        let isStored = audience != nil && usersFile == nil
        let given = [!user.isEmpty, usersFile != nil, isStored, !tagAny.isEmpty, !tagAll.isEmpty, everyone, toTesters]
        guard given.count(where: \.self) == 1 else {
            throw ValidationError(
                """
                Specify the recipients with exactly one of --user, --users-file, --audience, --tag-any, --tag-all, --everyone and \
                --to-testers.
                """
            )
        }
        guard user.count <= PushAudience.maximumUsers else {
            throw ValidationError(
                "--user is allowed at most \(PushAudience.maximumUsers) times. Use --users-file for more users."
            )
        }
        if let audience { _ = try Self.name(audience) }
    }

    /// Returns the audience, `nil` for the testers, and the upload that it needs, if any.
    ///
    /// - Parameter idempotencyKey: The key that an unnamed audience is named after, so that a retried request is
    ///   identical.
    /// - Throws: ``CommandFailure`` for an unreadable or invalid file of users, `ValidationError` for an invalid name.
    func audience(idempotencyKey: String) throws -> (PushAudience?, AudienceUpload?) {
        guard !toTesters else { return (nil, nil) }
        if let usersFile {
            guard let bytes = FileContents.read(usersFile) else {
                throw CommandFailure.ofArguments(
                    "\(usersFile) cannot be read, or exceeds 1 MiB. Upload more users with PUT /v1/audiences/{name}."
                )
            }
            let file = try UserFile(bytes)
            if let audience {
                return (.stored(try Self.name(audience)), AudienceUpload(lines: bytes, name: audience, isKept: true))
            }
            switch file {
            case .few(let ids): return (.users(ids), nil)
            case .many(let lines):
                let name = try Self.name(FileAudienceName(lines: lines).text(idempotencyKey: idempotencyKey))
                return (.stored(name), AudienceUpload(lines: bytes, name: name.text, isKept: false))
            }
        }
        if let audience { return (.stored(try Self.name(audience)), nil) }
        if !user.isEmpty { return (.users(user), nil) }
        if !tagAny.isEmpty { return (.tagsAny(tagAny), nil) }
        if !tagAll.isEmpty { return (.tagsAll(tagAll), nil) }
        return (.everyone, nil)
    }

    private static func name(_ text: String) throws -> AudienceName {
        guard let name = AudienceName(text) else {
            throw ValidationError(
                "Invalid audience name \(text). The name must be \(AudienceName.allowed): see --audience and --idempotency-key."
            )
        }
        return name
    }

    private static func parseUser(_ text: String) throws -> Int64 {
        guard let id = Int64(text), id > 0, String(id) == text else {
            throw ValidationError("A user's id must be \(UserIDLines.allowed).")
        }
        return id
    }
}

/// Users to upload as an audience for a push.
struct AudienceUpload {
    /// The user ids, one per line.
    let lines: [UInt8]
    /// A name that needs no escaping in a path.
    let name: String
    /// Whether the operator has named the audience. An unnamed one is deleted once the push, which copies its users, is
    /// stored.
    let isKept: Bool

    private var path: String { "/v1/audiences/\(name)" }

    func run(on server: ServerClient) async throws {
        let audience = try await server.put(path, lines: lines)
        let count = Text.grouped(audience["users"]?.integer ?? 0)
        Terminal.writeError("Uploaded \(count) users\(isKept ? " as the audience \(name)" : "").")
    }

    func cleanUp(on server: ServerClient) async {
        guard !isKept else { return }
        do {
            try await server.delete(path)
        } catch {
            Terminal.writeError("The temporary audience \(name) could not be deleted: \(error)")
        }
    }
}

/// The result of a dry run as text. Pure.
enum DryRun {
    /// Returns the rows that say what is to be sent, to whom, and when.
    ///
    /// - Parameters:
    ///   - push: The body of the request.
    ///   - json: The server's response.
    static func summary(of push: JSONObject, _ json: JSONValue, _ times: ShownTimes, now: Date) -> [[String]] {
        var rows: [[String]] = []
        if let name = push["name"]?.string { rows.append(["name", Text.printable(name)]) }
        if push["to_testers"]?.bool == true {
            rows.append(["audience", "the testers"])
        } else if let audience = push["audience"] {
            rows.append(["audience", ShownPush.audience(audience)])
        }
        if let exclusion = push["except"], !exclusion.isNull {
            rows.append(["except", Text.printable(exclusion.description)])
        }
        rows += leftOut(json).map { ["left out", $0] }
        rows += ShownPhones.rows(json) + ShownPhones.warnings(json)
        rows += [["kind", kind(json)], ["time", time(of: push, json, times, now)]]
        if let expiresAt = push["expires_at"]?.string.flatMap({ Date(rfc3339: $0) }) {
            rows.append(["expires", times.full(expiresAt)])
        }
        return rows
    }

    private static func kind(_ json: JSONValue) -> String { json.printable("kind", orElse: "not given") }

    private static func time(of push: JSONObject, _ json: JSONValue, _ times: ShownTimes, _ now: Date) -> String {
        let needsApproval = json["needs_approval"]?.bool == true
        return SendingTime(.object(push), waitsUntil: json["waits_until"], needsApproval: needsApproval)
            .text(times, now: now)
    }

    /// Returns the numbers of users whom the push would leave out, each with the reason.
    static func leftOut(_ json: JSONValue) -> [String] {
        reasons.compactMap { text(json["users"]?[$0.member], $0) }
    }

    /// Returns the numbers of users whom a push has left out, each with the reason.
    static func skipped(_ push: JSONValue) -> [String] {
        reasons.compactMap { text(push["unreached"]?["skipped"]?[$0.cause], $0) }
    }

    private static func text(_ count: JSONValue?, _ reason: Reason) -> String? {
        guard let count = count?.integer, count > 0 else { return nil }
        return "\(Text.users(count)) \(reason.text)"
    }

    private typealias Reason = (member: String, cause: String, text: String)

    /// The reasons for which a push leaves users out, each with the member of a dry run that counts them, and with that of a push.
    static let reasons = [
        (
            member: "without_consent", cause: "without_consent",
            text: "without consent to advertising (pushes.advertising_tag)"
        ),
        (member: "skipped", cause: "no_device", text: "without a device here that the message addresses"),
        (member: "excluded", cause: "excluded", text: "whom except names"),
    ]

    /// Prints the result.
    ///
    /// - Parameters:
    ///   - json: The server's response.
    ///   - push: The body of the request.
    static func write(_ json: JSONValue, of push: JSONObject, _ server: ServerClient) async throws {
        let lines = lines(of: push, json, try await server.times(), now: Date())
        for line in lines + requests(json, isShort: Terminal.isOutput) { Terminal.writeLine(line) }
    }

    /// Returns the question whether to send the push.
    ///
    /// - Parameters:
    ///   - json: The server's response.
    ///   - server: The server's address, which names the app if nothing else does.
    static func question(_ json: JSONValue, server: String) -> String {
        let count = (json["users"]?["total"]?.integer ?? 0) - (json["users"]?["skipped"]?.integer ?? 0)
        let approval =
            json["needs_approval"]?.bool == true ? " The push will wait for an approval with another key." : ""
        return "\(test(json))\(approval) Send to \(Text.users(count)) of \(app(json, server: server))?"
    }

    /// Returns the name of the app whose users are reached.
    ///
    /// - Parameters:
    ///   - json: A dry run or a push.
    ///   - server: The server's address, which names the app if nothing else does.
    static func app(_ json: JSONValue, server: String) -> String {
        let app = json["app"]?["name"]?.string ?? json["app"]?["id"]?.integer.map { "app \($0)" }
        return Text.printable(app ?? "the app at \(server)")
    }

    /// Returns a sentence about the last test of the message.
    ///
    /// - Parameter json: A dry run or a push.
    static func test(_ json: JSONValue) -> String {
        json["last_tested_at"]?.string.map { "The message was last sent to testers at \(Text.printable($0))." }
            ?? "The message was not sent to testers."
    }

    /// Returns the lines to print.
    ///
    /// - Parameters:
    ///   - push: The body of the request.
    ///   - json: The server's response.
    static func lines(of push: JSONObject, _ json: JSONValue, _ times: ShownTimes, now: Date) -> [String] {
        let total = json["users"]?["total"]?.integer ?? 0
        let skipped = json["users"]?["skipped"]?.integer ?? 0
        let excluded = json["users"]?["excluded"]?.integer ?? 0
        let withoutConsent = json["users"]?["without_consent"]?.integer ?? 0
        let share = Text.percent(json["monthly_quota"]?["share"]?.number?.double ?? 0)
        var lines = [
            "users     \(Text.grouped(total)) (\(Text.grouped(skipped)) would be skipped)",
            "requests  \(Text.grouped(json["requests"]?.integer ?? 0)) (\(share) of those that Kakao allows in a month)",
        ]
        for push in json["waits_for"]?.array ?? [] {
            lines.append(
                "waits for \(Text.printable(push.string ?? "")), not all of whose users are left out of these numbers"
            )
        }
        if withoutConsent > 0 { lines.insert("consent   missing of \(Text.grouped(withoutConsent)) more", at: 1) }
        if excluded > 0 { lines.insert("left out  \(Text.grouped(excluded)) more", at: 1) }
        if json["needs_approval"]?.bool == true { lines.append("approval  needed, with another key") }
        if let seconds = json["duration_seconds"]?.number?.double {
            lines.append("duration  about \(Text.duration(seconds: seconds))")
        }
        if let test = times.shown(json)["last_tested_at"]?.string {
            lines.append("tested    \(Text.printable(test))")
        }
        lines += ["kind      \(kind(json))", "time      \(time(of: push, json, times, now))"]
        return lines + [""] + Text.table(ShownPhones.rows(json) + ShownPhones.warnings(json))
    }

    /// The length to which the body of a request is shortened on a terminal. The ids of 100 users alone have up to 2,200 characters.
    private static let shortBody = 400

    /// Returns the lines of the first requests to Kakao.
    ///
    /// - Parameter isShort: Whether to print only the first, with a shortened body, as on a terminal.
    private static func requests(_ json: JSONValue, isShort: Bool) -> [String] {
        let requests = json["first_requests"]?.array ?? []
        var lines: [String] = []
        for request in isShort ? requests.prefix(1) : requests[...] {
            lines += ["", "\(request.printable("method")) \(request.printable("url"))"]
            for (name, value) in request["headers"]?.object?.members ?? [] {
                lines.append(Text.printable("\(name): \(value.string ?? "")"))
            }
            let body = request.printable("body")
            let isCut = isShort && body.count > shortBody
            lines += ["", isCut ? "\(body.prefix(shortBody))… (\(Text.grouped(Int64(body.count))) characters)" : body]
            if isCut || isShort && requests.count > 1 {
                lines += [
                    "",
                    "With | cat, \(requests.count == 1 ? "the request is" : "all \(requests.count) requests are") printed whole.",
                ]
            }
        }
        return lines
    }
}
