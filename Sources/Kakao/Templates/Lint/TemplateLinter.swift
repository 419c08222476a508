package import JSON

/// Finds what is wrong with a template before it is sent.
///
/// A fault counts as `rejected` only if Kakao is known to reject it. All others are warnings.
public struct TemplateLinter: Sendable {
    /// The size limit of a text in bytes: Kakao's SDKs refuse larger messages.
    public static let maximumBytes = Limits.messageBytes
    /// The maximum number of findings. Rejections have room for as many again.
    static let maximumFindings = 200
    private static let maximumDepth = 16

    private let domains: RegisteredDomains

    /// - Parameter domains: The domains that are registered at Kakao, such as `example.com` or `example.com:8443`; empty
    ///   if they are not known, so that links are not compared with them.
    public init(domains: some Sequence<String> = []) {
        self.domains = RegisteredDomains(domains)
    }

    /// Returns the faults of a template, in the order of its text.
    ///
    /// - Parameter json: The JSON text of `template_object`, correct or not.
    public func findings(in json: String) -> [Finding] {
        findings(in: Array(json.utf8))
    }

    /// Returns the faults of a template, in the order of its text.
    ///
    /// - Parameter json: The JSON text of `template_object` in UTF-8, correct or not.
    public func findings(in json: [UInt8]) -> [Finding] {
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(parsing: json, maximumDepth: Self.maximumDepth, maximumBytes: Self.maximumBytes)
        } catch {
            return [Self.syntaxError(error, in: json)]
        }
        return findings(in: value)
    }

    /// Returns the faults of a template.
    package func findings(in value: JSONValue) -> [Finding] {
        var inspection = Inspection(domains: domains)
        inspection.inspectTemplate(value)
        return inspection.result
    }

    /// Returns the faults of the address of a page that Kakao is to make a message of.
    ///
    /// - Parameter path: The name of the address, for the findings.
    package func findings(inPage address: String, at path: String) -> [Finding] {
        var inspection = Inspection(domains: domains)
        inspection.inspectLink(.string(address), .root[path], .uncertain)
        return inspection.result
    }

    private static func syntaxError(_ error: JSONError, in json: [UInt8]) -> Finding {
        let read = json.prefix(error.offset)
        let line = read.count { $0 == UInt8(ascii: "\n") } + 1
        let lineStart = (read.lastIndex(of: UInt8(ascii: "\n")) ?? -1) + 1
        // Characters, not bytes: continuation bytes do not count.
        let column = read[lineStart...].count { $0 & 0xC0 != 0x80 } + 1
        let place = "line \(line), column \(column)"
        if error.message.hasPrefix("duplicate") {
            return Finding(
                "$",
                .duplicateMember,
                .uncertain,
                value: place,
                "A member is given twice at \(place). Remove one of them; the rest was not checked."
            )
        }
        if error.message.hasPrefix("nested too deeply") || error.message.hasPrefix("text longer") {
            return Finding(
                "$",
                .notChecked,
                .uncertain,
                value: place,
                "The linter checks texts of up to \(maximumBytes) bytes, nested up to \(maximumDepth) deep. Kakao's SDKs refuse larger messages."
            )
        }
        var message = "The text is not JSON at \(place): \(error.message)."
        if json.starts(with: [0xEF, 0xBB, 0xBF]) {
            message =
                "The text begins with a byte order mark (UTF-8 with BOM), which JSON does not allow. Save it without."
        } else if json.allSatisfy({ " \t\r\n".utf8.contains($0) }) {
            message = "The text is empty."
        } else if error.offset < json.count, json[error.offset] == UInt8(ascii: "'") {
            message = "The text is not JSON at \(place): use double quotes."
        }
        let rest = json[min(error.offset, json.count)...]
        let previous = read.last { !" \t\r\n".utf8.contains($0) }
        if let next = rest.first, "}]".utf8.contains(next), previous == UInt8(ascii: ",") {
            message = "The text is not JSON at \(place): remove the comma before \(Character(Unicode.Scalar(next)))."
        }
        return Finding("$", .syntax, .rejected, value: place, message)
    }
}
