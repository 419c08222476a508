import Endpoints
import FoundationEssentials
import JSON

/// How a command shows times. Pure.
enum ShownTimes: Equatable {
    /// In UTC by RFC 3339, as the server writes them: for scripts.
    case utc
    /// As the clocks of the operators show them.
    case local(ZoneRules)

    /// Returns an object of the server with its times as they are shown.
    func shown(_ json: JSONValue) -> JSONValue {
        guard case .local = self else { return json }
        switch json {
        case .object(let object):
            var shown = JSONObject()
            for (name, value) in object.members {
                if Self.isTime(name), let time = value.string {
                    shown[name] = .string(text(time))
                } else if name == "warnings", let warnings = value.array {
                    shown[name] = .array(warnings.map(self.shown(warning:)))
                } else {
                    shown[name] = self.shown(value)
                }
            }
            return .object(shown)
        case .array(let elements): return .array(elements.map { shown($0) })
        case .string, .number, .bool, .null: return json
        }
    }

    /// Returns a warning about a push with the times of its sentence as they are shown.
    private func shown(warning: JSONValue) -> JSONValue {
        guard var object = warning.object, let sentence = object["message"]?.string else { return warning }
        object["message"] = .string(shown(in: sentence))
        return .object(object)
    }

    /// Returns whether members with this name are times.
    private static func isTime(_ name: String) -> Bool {
        ["_at", "_until", "_before", "_end"].contains { name.hasSuffix($0) } || name == "since" || name == "until"
    }

    /// Returns a time of the server as it is shown. Another text is unchanged.
    private func text(_ rfc3339: String) -> String {
        guard case .local(let zone) = self, let date = Date(rfc3339: rfc3339) else { return rfc3339 }
        return zone.text(date) ?? rfc3339
    }

    /// Returns a time as it is shown.
    func text(_ date: Date) -> String { text(date.rfc3339Seconds) }

    /// Returns a text of the server with its times as they are shown.
    func shown(in text: String) -> String {
        text.replacing(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/) { self.text(String($0.output.0)) }
    }

    /// Returns a time with the name of its zone, such as `2026-12-01 09:00:00 +09:00 (Asia/Seoul)`.
    func full(_ date: Date) -> String {
        guard case .local(let zone) = self, let text = zone.text(date) else { return date.rfc3339Seconds }
        return "\(text) (\(zone.name))"
    }
}

extension ServerClient {
    /// Prints the rows of an object as a table.
    ///
    /// - Parameter rows: Returns the rows of the object, in which times are as they are shown.
    func writeTable(_ object: JSONValue, _ rows: (JSONValue) throws -> [[String]]) async throws {
        Terminal.writeTable(try rows(try await times().shown(object)))
    }

    /// Returns how the command shows times on standard output: as the operators' clocks do if that is a terminal, unless the
    /// operator prefers UTC.
    func times() async throws -> ShownTimes {
        try await times(isTerminal: Terminal.isOutput)
    }

    /// Returns how the command shows times to an operator who is asked.
    func timesOfQuestion() async throws -> ShownTimes {
        try await times(isTerminal: true)
    }

    private func times(isTerminal: Bool) async throws -> ShownTimes {
        guard isTerminal, !prefersUTC else { return .utc }
        do {
            return .local(try await zone())
        } catch let failure as CallFailure where failure.kind == .refused {
            // A server of an earlier version, or a key that may not ask.
            return .utc
        }
    }

    private func zone() async throws -> ZoneRules { try ZoneRules(try await get("/v1/time-zone")) }

    /// Returns a failure of a call in the terms of the command: with the option that the operator gave instead of the field, with the
    /// times of the operators' clocks, and with commands instead of requests.
    func explained(_ failure: CallFailure) async -> CallFailure {
        var text = failure.description.replacing(/POST \/v1\/pushes\/([0-9a-f-]{36})\/([a-z]+)/) { request in
            "push-server pushes \(request.output.2) \(request.output.1)"
        }
        if let field = failure.field, ["send_at", "expires_at", "since", "until"].contains(field) {
            text = ((try? await timesOfQuestion()) ?? .utc).shown(in: text)
            // The other two are words, too, and the names of their options.
            if text.hasPrefix("\(field) "), !field.hasSuffix("_at") { text = "--\(text)" }
            text = text.replacing("send_at", with: "--at").replacing("expires_at", with: "--expires")
        }
        return CallFailure(
            kind: failure.kind,
            description: text,
            field: failure.field,
            problem: failure.problem,
            isOfInvalidURL: failure.isOfInvalidURL
        )
    }

    /// Returns the time of an option by RFC 3339. A time without a zone, such as `2026-12-01 09:00`, is one of the server's time
    /// zone; one with a difference from UTC may have the form in which commands show times.
    ///
    /// - Parameter name: The name of the option: `--at`.
    /// - Throws: ``CommandFailure`` for another text, and for a time that the clocks of the zone do not show, or show twice;
    ///   ``CallFailure``.
    func time(_ option: String?, of name: String) async throws -> String? {
        guard let option else { return nil }
        guard let local = LocalTime(option) else {
            let time = ZoneRules.rfc3339(shown: option) ?? option
            guard Date(rfc3339: time) != nil else {
                throw CommandFailure.ofArguments("\(name) must be \(LocalTime.forms), not \(Text.printable(option)).")
            }
            return time
        }
        let zone: ZoneRules
        do {
            zone = try await self.zone()
        } catch let failure as CallFailure where failure.kind == .refused {
            throw CommandFailure(
                "The time zone of \(option) is unknown: \(failure.description) Give the time as YYYY-MM-DDTHH:MM:SSZ, in UTC."
            )
        }
        return try zone.date(local).rfc3339Seconds
    }
}
