import FoundationEssentials
import Glibc
import JSON
import LogOutput
import Logging
import TestSupport
import Testing

/// The lines of the log, as they are written.
@Suite struct LogLineTests {
    /// Characters that begin a line, control a terminal, or change the order in which a line is shown.
    private static let dangerous: [Unicode.Scalar] = [
        "\n", "\r", "\u{1B}", "\u{7F}", "\u{85}", "\u{9B}", "\u{61C}", "\u{200E}", "\u{200F}", "\u{2028}", "\u{2029}",
        "\u{202A}", "\u{202E}", "\u{2066}", "\u{2069}",
    ]

    @Test("No character of a value controls the terminal or the direction of writing", arguments: LogFormat.allCases)
    func escaped(format: LogFormat) throws {
        let file = "\(try TemporaryFolder.make())/log"
        let descriptor = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        defer { close(descriptor) }
        let sink = LogSink(descriptor: descriptor)
        let value = "전화 \"é\" \\ " + String(String.UnicodeScalarView(Self.dangerous))
        Logger(label: "test") { _ in LineLogHandler(sink: sink, format: format) }
            .info("Message \(value)", metadata: ["value": "\(value)"])
        sink.flush()
        let text = String(decoding: try Data(contentsOf: URL(filePath: file)), as: UTF8.self)
        #expect(text.hasSuffix("\n"))
        let line = text.dropLast()
        #expect(!line.unicodeScalars.contains { Self.dangerous.contains($0) })
        #expect(line.contains("전화"))
        guard format == .json else { return }
        // A reader of JSON gets the value as it was.
        let json = try JSONValue(parsing: Array(line.utf8))
        #expect(json["value"]?.string.map { Array($0.unicodeScalars) } == Array(value.unicodeScalars))
        #expect(json["message"]?.string == "Message \(value)")
    }

    @Test("A line that strangers cause is written once a second, with the number of those left out")
    func repeated() {
        let log = CollectedLog()
        let line = RepeatedLine(log.logger, .error)
        let start = ContinuousClock.now
        for milliseconds in [0, 1, 999, 1000, 1500, 5000, 9000] {
            line.write("Failed", ["at": "\(milliseconds)"], at: start + .milliseconds(milliseconds))
        }
        #expect(
            log.lines.map(\.metadata) == [
                ["at": "0"], ["at": "1000", "repeated": "2"], ["at": "5000", "repeated": "1"], ["at": "9000"],
            ]
        )
        #expect(log.messages(.error) == ["Failed", "Failed", "Failed", "Failed"])
    }
}
