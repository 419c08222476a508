internal import ArgumentParser
internal import FoundationEssentials
internal import JSON
internal import PushService

extension PushesCommand {
    struct Send: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send a push and print its id.",
            discussion: """
                When the connection is lost before the answer, the request is made again with the same Idempotency-Key: the push is \
                stored once.
                """
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var recipients: RecipientOptions

        @Option(help: "Kakao's push_message: a file, the JSON itself, or - for standard input.")
        var message: String

        @Option(help: "What the push is called in lists.")
        var name: String?

        @Option(help: "When it is sent, as 2026-11-21T08:15:30Z. (default: at once)")
        var at: String?

        @Option(help: "When what is not sent is given up, as 2026-11-21T08:15:30Z. (default: never)")
        var expires: String?

        @Option(help: "At most so many users in a second.")
        var usersPerSecond: Int?

        @Option(help: "What is done with a request that Kakao did not answer. (default: at_least_once)")
        var delivery: Delivery?

        @Flag(help: "Send to users without a device known to this server too: Kakao may have their tokens.")
        var includeUnknown = false

        @Flag(help: "Send nothing: print how many users and requests it would be, and the first requests.")
        var dryRun = false

        @Option(
            help: "A text of your own: the same request with the same text is carried out once. (default: a new one)"
        )
        var idempotencyKey: String?

        @Flag(help: "Show how it goes on, as watch does.")
        var watch = false

        @Flag(help: "Do not ask before sending to everyone; needed for that without a terminal.")
        var yes = false

        func validate() throws {
            guard !watch || !dryRun else { throw ValidationError("There is nothing to --watch of a --dry-run.") }
            guard !includeUnknown || recipients.namesUsers else {
                throw ValidationError("--include-unknown needs --user, --users-file or --audience.")
            }
            let key = idempotencyKey ?? "-"
            guard (1...255).contains(key.utf8.count), key.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
                throw ValidationError("--idempotency-key is 1 to 255 visible ASCII characters.")
            }
            guard recipients.everyone, !dryRun, !yes, !Terminal.isInteractive else { return }
            throw ValidationError("--everyone without a terminal to ask at needs --yes.")
        }

        @concurrent
        func run() async throws {
            try await options.withServer { server in
                let message = try Self.readMessage(message)
                let key = idempotencyKey ?? UUID().uuidString.lowercased()
                let (audience, upload) = try recipients.audience(idempotencyKey: key)
                let push = PushRequest(
                    audience: audience,
                    message: message,
                    name: name,
                    sendAt: at,
                    expiresAt: expires,
                    usersPerSecond: usersPerSecond,
                    delivery: delivery,
                    skipsUnknown: !includeUnknown,
                    isDryRun: dryRun
                )
                guard !recipients.everyone || dryRun || yes || Terminal.confirms("Send to every user who has a device?")
                else {
                    Terminal.writeError("Nothing was sent.")
                    throw ExitCode.failure
                }
                if let upload { try await upload.run(on: server) }
                let answer: JSONValue
                do {
                    answer = try await server.send(push, idempotencyKey: key)
                } catch {
                    await upload?.cleanUp(on: server)
                    if !dryRun, let failure = error as? CallFailure, failure.kind != .refused {
                        Terminal.writeError(
                            "To try again without sending twice: the same with --idempotency-key \(key)"
                        )
                    }
                    throw error
                }
                await upload?.cleanUp(on: server)
                if dryRun {
                    for line in DryRun.lines(answer) { Terminal.writeLine(line) }
                } else {
                    try await report(ShownPush(answer), server)
                }
            }
        }

        private func report(_ push: ShownPush, _ server: ServerClient) async throws {
            Terminal.writeLine(push.id)
            guard watch, let id = UUID(uuidString: push.id) else { return }
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
                    throw CommandFailure(
                        "\(source) cannot be read: --message is a file, JSON, or - for standard input."
                    )
                }
                bytes = contents
            }
            do {
                return try JSONValue(parsing: bytes)
            } catch {
                throw CommandFailure("The message is not JSON: \(error).")
            }
        }
    }
}

/// Whom a push is for.
struct RecipientOptions: ParsableArguments {
    @Option(help: "A user's id; as often as there are users.", transform: parseUser)
    var user: [Int64] = []

    @Option(help: "A file of user ids, one a line. More than 10,000 are uploaded as an audience.")
    var usersFile: String?

    @Option(help: "The name of a stored audience; with --users-file the name to store it under, and to keep it.")
    var audience: String?

    @Option(help: "Users of whom a device has this tag, or another one that is given so.")
    var tagAny: [String] = []

    @Option(help: "Users of whom one device has this tag and all others that are given so.")
    var tagAll: [String] = []

    @Flag(help: "All users who have a device.")
    var everyone = false

    /// Whether the users are listed, whatever devices they have.
    var namesUsers: Bool { !user.isEmpty || usersFile != nil || audience != nil }

    func validate() throws {
        let isStored = audience != nil && usersFile == nil
        let given = [!user.isEmpty, usersFile != nil, isStored, !tagAny.isEmpty, !tagAll.isEmpty, everyone]
        guard given.count(where: \.self) == 1 else {
            throw ValidationError(
                "Say whom the push is for with one of --user, --users-file, --audience, --tag-any, --tag-all and --everyone."
            )
        }
        guard user.count <= PushAudience.maximumUsers else {
            throw ValidationError(
                "--user is given \(PushAudience.maximumUsers) times at most: put them into a --users-file."
            )
        }
        if let audience { _ = try Self.name(audience) }
    }

    /// The audience, and what has to be uploaded for it.
    ///
    /// - Parameter idempotencyKey: An audience without a name is called by it, so that the same request is the same again.
    func audience(idempotencyKey: String) throws -> (PushAudience, AudienceUpload?) {
        if let usersFile {
            guard let bytes = FileContents.read(usersFile) else { throw CommandFailure("\(usersFile) cannot be read.") }
            let file = try UserFile(bytes)
            if audience == nil, case .few(let ids) = file { return (.users(ids), nil) }
            let name = try Self.name(audience ?? "push-\(idempotencyKey)")
            return (.stored(name), AudienceUpload(lines: bytes, name: name.text, isKept: audience != nil))
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
                "\(text) cannot be the name of an audience, which is \(AudienceName.allowed): see --audience."
            )
        }
        return name
    }

    private static func parseUser(_ text: String) throws -> Int64 {
        guard let id = Int64(text), id > 0, String(id) == text else {
            throw ValidationError("A user's id is \(UserIDLines.allowed).")
        }
        return id
    }
}

/// Users that are stored as an audience, for a push to go to.
struct AudienceUpload {
    let lines: [UInt8]
    let name: String
    /// Whether the operator has named it; else it goes away when the push, which has its users by then, is stored.
    let isKept: Bool

    func run(on server: ServerClient) async throws {
        let count = try await server.upload(lines, as: name)
        Terminal.writeError("Uploaded \(Text.grouped(count)) users as the audience \(name).")
    }

    func cleanUp(on server: ServerClient) async {
        guard !isKept else { return }
        do {
            try await server.deleteAudience(name)
        } catch {
            Terminal.writeError("The audience \(name) is left behind: \(error)")
        }
    }
}

/// What a push would come to. Pure.
enum DryRun {
    /// - Parameter json: What the server answered.
    static func lines(_ json: JSONValue) -> [String] {
        let total = json["users"]?["total"]?.integer ?? 0
        let skipped = json["users"]?["skipped"]?.integer ?? 0
        var lines = [
            "users     \(Text.grouped(total)), of whom \(Text.grouped(skipped)) would be skipped",
            "requests  \(Text.grouped(json["requests"]?.integer ?? 0))",
        ]
        for request in json["first_requests"]?.array ?? [] {
            func text(_ name: String) -> String { Text.printable(request[name]?.string ?? "") }
            lines += ["", "\(text("method")) \(text("url"))"]
            for (name, value) in request["headers"]?.object?.members ?? [] {
                lines.append(Text.printable("\(name): \(value.string ?? "")"))
            }
            lines += ["", text("body")]
        }
        return lines
    }
}
