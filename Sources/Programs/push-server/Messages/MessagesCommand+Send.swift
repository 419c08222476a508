import ArgumentParser
import JSON
import Runtime
import Settings

extension MessagesCommand {
    struct Send: ServerCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send a message and print its id.",
            discussion: """
                Without --user and --friend, the message goes to the sender. An alert to yourself:
                  push-server messages send --sender 1234 --text "Disk full" --link https://status.example.com
                If the connection is lost before the response, the request is retried with the same Idempotency-Key, so the message \
                is stored only once.
                """
        )

        @OptionGroup var options: ServerOptions

        @Option(help: "The user in whose name the message is sent.", transform: UserArgument.parse)
        var sender: Int64

        @Option(
            help: "A friend of the sender by user id. Repeat the option for several.",
            transform: UserArgument.parse
        )
        var user: [Int64] = []

        @Option(help: "A friend of the sender by uuid. Repeat the option for several.")
        var friend: [String] = []

        @Option(help: "The text of the message, with --link.")
        var text: String?

        @Option(help: "The page that the text leads to, on a registered domain.")
        var link: String?

        @Option(help: "A default template: a file with Kakao's template_object.")
        var template: String?

        @Option(help: "The id of a custom template.")
        var templateID: Int64?

        @Option(help: "An argument of the custom template, as NAME=VALUE. Repeat the option for several.")
        var arg: [String] = []

        @Option(help: "A page of which Kakao makes the message.")
        var page: String?

        @Option(help: "The time to send the message: \(LocalTime.forms). (default: now)")
        var at: String?

        @Option(help: "The time after which nothing is sent, in the same forms. (default: never)")
        var expires: String?

        @Option(help: "Whether to repeat a request that Kakao did not respond to. (default: at_most_once)")
        var delivery: Delivery?

        @Flag(help: "Fail instead of waiting for the next day if a quota is used up.")
        var failOverQuota = false

        @Flag(help: "Send nothing. Print who would be reached, and why others would not.")
        var dryRun = false

        @OptionGroup var idempotency: IdempotencyOptions

        func validate() throws {
            guard user.isEmpty || friend.isEmpty else {
                throw ValidationError("--user and --friend cannot be combined.")
            }
            guard [text != nil, template != nil, templateID != nil || page != nil].count(where: \.self) == 1 else {
                throw ValidationError(
                    "Specify the message with one of --text, --template, and --template-id or --page."
                )
            }
            guard (text == nil) == (link == nil) else { throw ValidationError("--text and --link need each other.") }
            guard arg.isEmpty || templateID != nil else { throw ValidationError("--arg needs --template-id.") }
            guard arg.allSatisfy({ $0.contains("=") }) else { throw ValidationError("--arg must be NAME=VALUE.") }
        }

        func run(on server: ServerClient) async throws {
            var message = try message()
            message["send_at"] = try await server.time(at, of: "--at").map { .string($0) }
            message["expires_at"] = try await server.time(expires, of: "--expires").map { .string($0) }
            let key = idempotency.key()
            let answer: JSONValue
            do {
                answer = try await server.create("/v1/messages", message, idempotencyKey: key)
            } catch {
                if !dryRun { IdempotencyOptions.adviseRetry(after: error, key: key) }
                throw error
            }
            for finding in answer["findings"]?.array ?? [] {
                Terminal.writeError("\(finding.printable("path", orElse: "$")): \(finding.printable("message"))")
            }
            guard dryRun else { return Terminal.writeLine(try ShownMessage(answer).id) }
            let times = try await server.times()
            let rows = (answer["receivers"]?.array ?? []).map { ShownMessage.row(ofReceiver: times.shown($0)) }
            Terminal.writeTable([ShownMessage.receiverHead] + rows)
        }

        /// Returns the body of the request.
        ///
        /// - Throws: ``CommandFailure`` for a template that cannot be read.
        private func message() throws -> JSONObject {
            var body: JSONObject = ["sender": .string(String(sender)), "to": "me"]
            if !user.isEmpty { body["to"] = ["users": .array(user.map { .string(String($0)) })] }
            if !friend.isEmpty { body["to"] = ["friends": .array(friend.map { .string($0) })] }
            if let text, let link {
                body["template"] = [
                    "object_type": "text", "text": .string(text),
                    "link": ["web_url": .string(link), "mobile_web_url": .string(link)],
                ]
            }
            if let template { body["template"] = try Self.template(template) }
            if let templateID { body["template_id"] = .string(String(templateID)) }
            if !arg.isEmpty {
                var values = JSONObject()
                for pair in arg {
                    let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                    values[String(parts[0])] = .string(String(parts[1]))
                }
                body["template_args"] = .object(values)
            }
            body["request_url"] = page.map { .string($0) }
            body["delivery"] = delivery.map { .string($0.rawValue) }
            if failOverQuota { body["when_over_quota"] = "fail" }
            if dryRun { body["dry_run"] = true }
            return body
        }

        private static func template(_ path: String) throws -> JSONValue {
            guard let bytes = FileContents.read(path) else {
                throw CommandFailure.ofArguments("\(path) cannot be read.")
            }
            do {
                return try JSONValue(parsing: bytes)
            } catch {
                throw CommandFailure.ofArguments("The template is not valid JSON: \(error).")
            }
        }
    }
}
