import Glibc
package import Logging

/// The format of a log line.
package enum LogFormat: String, Sendable, CaseIterable {
    /// Text for people: `2026-11-21T08:15:30.123Z info     Listening address=127.0.0.1:8080`.
    case text
    /// JSON for machines: one object per line. Only the notice of dropped lines is text (``LogSink``).
    case json
}

/// A log handler that formats events as lines for a ``LogSink``. Its level is that of the sink unless it is set.
package struct LineLogHandler: LogHandler {
    /// The level of this handler alone; `nil` for that of the sink.
    private var ownLevel: Logger.Level?
    package var metadata: Logger.Metadata = [:]
    package var metadataProvider: Logger.MetadataProvider?
    private let format: LogFormat
    private let sink: LogSink

    package init(sink: LogSink, format: LogFormat) {
        self.sink = sink
        self.format = format
    }

    package var logLevel: Logger.Level {
        get { ownLevel ?? sink.level }
        set { ownLevel = newValue }
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        var fields = metadata
        if let provided = metadataProvider?.get() { fields.merge(provided) { $1 } }
        if let given = event.metadata { fields.merge(given) { $1 } }
        let pairs = fields.map { (name: $0.key, value: $0.value.description) }.sorted { $0.name < $1.name }
        var line = LogLine()
        switch format {
        case .text: line.text(level: event.level, message: event.message.description, pairs)
        case .json: line.json(level: event.level, message: event.message.description, pairs)
        }
        sink.write(line.bytes)
    }
}

/// The bytes of one log line.
private struct LogLine {
    private(set) var bytes: [UInt8] = []

    init() {
        bytes.reserveCapacity(256)
    }

    mutating func text(level: Logger.Level, message: String, _ pairs: [(name: String, value: String)]) {
        timestamp()
        let name = level.rawValue
        append(" " + name + String(repeating: " ", count: max(1, 9 - name.utf8.count)))
        escaped(message)
        for (name, value) in pairs {
            append(" " + name + "=")
            // Quoted if the end of the value would otherwise be ambiguous.
            if value.isEmpty || value.utf8.contains(where: { $0 <= 0x20 || $0 == UInt8(ascii: "\"") }) {
                append("\"")
                escaped(value)
                append("\"")
            } else {
                escaped(value)
            }
        }
        append("\n")
    }

    mutating func json(level: Logger.Level, message: String, _ pairs: [(name: String, value: String)]) {
        append("{\"time\":\"")
        timestamp()
        append("\",\"level\":\"\(level.rawValue)\",\"message\":\"")
        escaped(message)
        append("\"")
        for (name, value) in pairs {
            append(",\"")
            escaped(name)
            append("\":\"")
            escaped(value)
            append("\"")
        }
        append("}\n")
    }

    private mutating func append(_ text: String) {
        bytes.append(contentsOf: text.utf8)
    }

    /// Appends text escaped as in a JSON string, so that no value can begin a new line, control a terminal, or change the
    /// order in which the rest of the line is shown.
    private mutating func escaped(_ text: String) {
        for scalar in text.unicodeScalars {
            switch scalar.value {
            case 0x22, 0x5C:
                append("\\")
                append(String(scalar))
            case 0x0A: append("\\n")
            // The controls of ASCII and of ISO 6429, the separators of lines, and the marks of a direction of writing.
            case 0..<0x20, 0x7F..<0xA0, 0x061C, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069:
                let digits = String(scalar.value, radix: 16)
                append("\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits)
            case ..<0x80: bytes.append(UInt8(truncatingIfNeeded: scalar.value))
            default: append(String(scalar))
            }
        }
    }

    private mutating func timestamp() {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        var seconds = now.tv_sec
        var parts = tm()
        gmtime_r(&seconds, &parts)
        digits(Int(parts.tm_year) + 1900, 4)
        append("-")
        digits(Int(parts.tm_mon) + 1, 2)
        append("-")
        digits(Int(parts.tm_mday), 2)
        append("T")
        digits(Int(parts.tm_hour), 2)
        append(":")
        digits(Int(parts.tm_min), 2)
        append(":")
        digits(Int(parts.tm_sec), 2)
        append(".")
        digits(now.tv_nsec / 1_000_000, 3)
        append("Z")
    }

    private mutating func digits(_ number: Int, _ width: Int) {
        let text = String(number)
        bytes.append(contentsOf: repeatElement(0x30, count: max(0, width - text.utf8.count)))
        append(text)
    }
}
