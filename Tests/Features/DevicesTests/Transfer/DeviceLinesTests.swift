import Endpoints
import FoundationEssentials
import JSON
import KakaoAPI
import Testing

@testable import Devices

/// The parsing of devices, one per line, from a text that may be split anywhere.
@Suite struct DeviceLinesTests {
    private struct Reading: Equatable {
        /// The devices in a canonical form, each with the number of its line.
        var devices: [String] = []
        var badLines: [Int64] = []
        var reasons: [String] = []
    }

    private static let now = Date(timeIntervalSince1970: 1_795_000_000)
    /// The four required members.
    private static let device = #""user_id":1,"device_id":"phone","push_type":"fcm","push_token":"t""#

    private static func read(_ pieces: [[UInt8]], _ format: TransferFormat) -> Reading {
        var lines = DeviceLines(format, now: now)
        var reading = Reading()
        func take(_ device: TransferredDevice, _ number: Int64) {
            var bytes: [UInt8] = []
            device.write(.ndjson, to: &bytes)
            reading.devices.append("\(number) \(String(decoding: bytes.dropLast(), as: UTF8.self))")
        }
        for piece in pieces { lines.read(piece, take) }
        lines.end(take)
        reading.badLines = lines.badLines.map(\.number)
        reading.reasons = lines.badLines.map(\.reason)
        #expect(lines.count == Int64(reading.devices.count))
        return reading
    }

    /// Parses a text at once, octet by octet, and split at every offset. All results must agree.
    private static func read(_ text: String, _ format: TransferFormat) -> Reading {
        let bytes = Array(text.utf8)
        let whole = read([bytes], format)
        #expect(read(bytes.map { [$0] }, format) == whole)
        for cut in bytes.indices { #expect(read([Array(bytes[..<cut]), Array(bytes[cut...])], format) == whole) }
        return whole
    }

    @Test("Lines of NDJSON may end with LF, CR LF or the end of the text, and empty lines are skipped")
    func ndjson() {
        let one = "{\(Self.device)}"
        let text = "\u{FEFF}\(one)\r\n\r\n\n{\"locale\":null,\(Self.device)}\n \(one) \n\(one)"
        let reading = Self.read(text, .ndjson)
        let written = #"{"user_id":"1","device_id":"phone","push_type":"fcm","push_token":"t"}"#
        #expect(reading == Reading(devices: [1, 4, 5, 6].map { "\($0) \(written)" }))
    }

    @Test("A line of NDJSON may have all fields of a device")
    func everything() {
        let line = #"""
            {"tags":["a b","여행","\"q\",;|"],"user_id":"9223372036854775807","device_id":"전화 + &","push_type":"gcm","push_token":"a:b/c=",
            "locale":"ko-KR","timezone":"Asia/Seoul","app_version":"1.2","created_at":"2026-01-02T03:04:05.000001+09:00",
            "updated_at":"2026-02-03T04:05:06.7Z","expires_at":"2030-01-01T00:00:00Z"}
            """#.replacing("\n", with: "")
        let written = #"""
            1 {"user_id":"9223372036854775807","device_id":"전화 + &","push_type":"fcm","push_token":"a:b/c=",
            "locale":"ko-KR","timezone":"Asia/Seoul","app_version":"1.2","tags":["a b","여행","\"q\",;|"],
            "created_at":"2026-01-01T18:04:05.000001Z","updated_at":"2026-02-03T04:05:06.700000Z",
            "expires_at":"2030-01-01T00:00:00.000000Z"}
            """#.replacing("\n", with: "")
        #expect(Self.read(line, .ndjson) == Reading(devices: [written]))
    }

    @Test("CSV is parsed by the columns in its header, quoted or not, with LF or CR LF")
    func csv() {
        let text =
            "\u{FEFF}push_token,\"tags\",user_id,expires_at,device_id,push_type\r\n"
            + "\"a,\"\"b\"\"\",\"x\ty z\",7,never,\"\",apns\n"
            + "\n"
            + "token,,8,,\"phone \"\"1\"\"\",fcm\r\n"
            + "c,\"one\",9,2030-01-01T00:00:00Z,d,gcm"
        let reading = Self.read(text, .csv)
        #expect(reading.badLines == [2])
        #expect(reading.reasons == ["device_id must be a text of 1 to 64 characters, without control characters"])
        #expect(
            reading.devices == [
                #"4 {"user_id":"8","device_id":"phone \"1\"","push_type":"fcm","push_token":"token"}"#,
                #"5 {"user_id":"9","device_id":"d","push_type":"fcm","push_token":"c","tags":["one"],"expires_at":"2030-01-01T00:00:00.000000Z"}"#,
            ]
        )
    }

    @Test("CSV that is written is parsed back unchanged")
    func written() throws {
        let line =
            #"{"user_id":5,"device_id":" a\"b,c ","push_type":"apns","push_token":"t","tags":["x,y","\"","z "],"expires_at":"never"}"#
        var lines = DeviceLines(.ndjson, now: Self.now)
        var csv: [UInt8] = []
        TransferredDevice.writeHeader(.csv, to: &csv)
        lines.read(Array(line.utf8)) { device, _ in device.write(.csv, to: &csv) }
        lines.end { device, _ in device.write(.csv, to: &csv) }
        let reading = Self.read(String(decoding: csv, as: UTF8.self), .csv)
        #expect(
            reading.devices == [
                #"2 {"user_id":"5","device_id":" a\"b,c ","push_type":"apns","push_token":"t","tags":["x,y","\"","z "],"expires_at":"never"}"#
            ]
        )
    }

    private static let long = String(repeating: "x", count: 5000)

    @Test(
        "An invalid line of NDJSON is reported by its number and reason, without its content",
        arguments: [
            ("x", "JSON"), ("{", "JSON"), ("[]", "object"), ("7", "object"), ("{\(device)}x", "JSON"),
            ("{\(device),\"user_id\":2}", "JSON"), ("{\(device),\"expire_at\":\"never\"}", "unknown member"),
            ("{\(device),\"locale\":{}}", "locale"), ("{\(device),\"locale\":[[[]]]}", "JSON"),
            ("{}", "user_id"), (#"{"user_id":0}"#, "user_id"), (#"{"user_id":1.0}"#, "user_id"),
            (#"{"user_id":9223372036854775808}"#, "user_id"), (#"{"user_id":"+1"}"#, "user_id"),
            (#"{"user_id":1,"push_type":"fcm","push_token":"t"}"#, "device_id"),
            (#"{"user_id":1,"device_id":"a\u0000b","push_type":"fcm","push_token":"t"}"#, "device_id"),
            (#"{"user_id":1,"device_id":7,"push_type":"fcm","push_token":"t"}"#, "device_id"),
            (#"{"user_id":1,"device_id":"a","push_type":"FCM","push_token":"t"}"#, "push_type"),
            (#"{"user_id":1,"device_id":"a","push_token":"t"}"#, "push_type"),
            (#"{"user_id":1,"device_id":"a","push_type":"fcm"}"#, "push_token"),
            (#"{"user_id":1,"device_id":"a","push_type":"fcm","push_token":""}"#, "push_token"),
            (#"{"user_id":1,"device_id":"a","push_type":"fcm","push_token":"\#(long)"}"#, "push_token"),
            ("{\(device),\"tags\":\"a\\tb\\t\"}", "tags"), ("{\(device),\"tags\":[1]}", "tags"),
            ("{\(device),\"tags\":[\"a\\tb\"]}", "tags"), ("{\(device),\"timezone\":\"\"}", "timezone"),
            ("{\(device),\"app_version\":\"\(long)\"}", "app_version"),
            ("{\(device),\"created_at\":\"yesterday\"}", "created_at"),
            ("{\(device),\"updated_at\":1700000000}", "updated_at"),
            ("{\(device),\"updated_at\":\"2999-01-01T00:00:00Z\"}", "updated_at"),
            ("{\(device),\"updated_at\":\"2026-02-30T00:00:00Z\"}", "updated_at"),
            ("{\(device),\"expires_at\":-1}", "expires_at"), ("{\(device),\"expires_at\":\"\"}", "expires_at"),
        ]
    )
    func badNDJSON(line: String, reason: String) {
        let reading = Self.read([Array("{\(Self.device)}\n\n\(line)\n{\(Self.device)}\r\n\(line)".utf8)], .ndjson)
        #expect(reading.badLines == [3, 5])
        #expect(reading.devices.map { $0.prefix(2) } == ["1 ", "4 "])
        #expect(reading.reasons.allSatisfy { $0.contains(reason) && !$0.contains("xxxx") }, "\(reading.reasons)")
    }

    @Test(
        "An invalid line of CSV is reported by its number and reason",
        arguments: [
            ("1,phone,fcm", "number of fields"), ("1,phone,fcm,t,", "number of fields"), ("1,pho\"ne,fcm,t", "quote"),
            ("1,\"phone\"x,fcm,t", "comma"), ("1,phone,fcm,\"t", "end on its line"),
            ("1,phone,fcm,\"t\"\"", "end on its line"),
            (",phone,fcm,t", "user_id"), ("01,phone,fcm,t", "user_id"), ("1,,fcm,t", "device_id"),
            ("1,\"\",fcm,t", "device_id"), ("1,a\tb,fcm,t", "device_id"), ("1,phone,,t", "push_type"),
            ("1,phone,web,t", "push_type"), ("1,phone,fcm,", "push_token"), ("1,pho\rne,fcm,t", "device_id"),
        ]
    )
    func badCSV(line: String, reason: String) {
        let header = "user_id,device_id,push_type,push_token"
        let reading = Self.read([Array("\(header)\n1,a,fcm,t\n\(line)\n2,b,apns,u\r\n\n\(line)".utf8)], .csv)
        #expect(reading.badLines == [3, 6])
        #expect(reading.devices.map { $0.prefix(2) } == ["2 ", "4 "])
        #expect(reading.reasons.allSatisfy { $0.contains(reason) }, "\(reading.reasons)")
    }

    @Test("Invalid UTF-8 is rejected in both formats")
    func notUTF8() {
        let json = Array(#"{"user_id":1,"device_id":""#.utf8) + [0xC3, 0x28] + Array(#""}"#.utf8)
        #expect(Self.read([json], .ndjson).badLines == [1])
        let csv = Array("user_id,device_id,push_type,push_token\n1,".utf8) + [0xFF] + Array(",fcm,t\n".utf8)
        #expect(Self.read([csv], .csv) == Reading(badLines: [2], reasons: ["invalid UTF-8"]))
    }

    @Test(
        "A CSV without a valid header is not parsed",
        arguments: [
            "", "\n", "1,phone,fcm,t", "user_id,device_id,push_type", "user_id,device_id,push_type,push_token,",
            "user_id,device_id,push_type,push_token,user_id", "User_id,device_id,push_type,push_token",
            "user_id;device_id;push_type;push_token", "user_id,device_id,push_type,push_token,phone_model",
        ]
    )
    func badHeader(header: String) {
        let reading = Self.read([Array("\(header)\n1,a,fcm,t\n2,b,fcm,u\n".utf8)], .csv)
        #expect(reading.badLines.count == 1)
        #expect(reading.reasons.first?.hasPrefix("the header must name") == true)
        #expect(reading.devices.isEmpty)
    }

    @Test("A line beyond the maximum length is invalid and not buffered, and the next one is parsed")
    func endless() {
        var lines = DeviceLines(.ndjson, now: Self.now)
        var devices = 0
        let piece = [UInt8](repeating: UInt8(ascii: "1"), count: 1 << 16)
        for _ in 0..<10 { lines.read(piece) { _, _ in devices += 1 } }
        lines.read(Array("\n{\(Self.device)}\n".utf8)) { _, _ in devices += 1 }
        #expect(lines.badLines.map(\.number) == [1])
        #expect(devices == 1)
        #expect(!lines.isHopeless)
        for _ in 0..<17 { lines.read(piece) { _, _ in devices += 1 } }
        #expect(lines.isHopeless)
    }

    @Test("The longest possible device fits into a line, even if it is escaped")
    func longest() {
        func escaped(_ count: Int) -> String { String(repeating: "\\ud83d\\ude00", count: count) }
        let tags = (0..<50).map { _ in "\"\(escaped(64))\"" }.joined(separator: ",")
        let line =
            #"{"user_id":"9223372036854775807","device_id":"\#(escaped(64))","push_type":"apns","push_token":"\#(escaped(4096))","#
            + #""locale":"\#(escaped(35))","timezone":"\#(escaped(64))","app_version":"\#(escaped(64))","tags":[\#(tags)]}"#
        #expect(line.utf8.count < DeviceLines.maximumLineBytes)
        #expect(Self.read([Array(line.utf8)], .ndjson).devices.count == 1)
    }

    @Test("The first ten invalid lines are reported; then the rest is not worth parsing")
    func hopeless() {
        var lines = DeviceLines(.ndjson, now: Self.now)
        lines.read(Array(String(repeating: "x\n\n", count: 9).utf8)) { _, _ in }
        #expect(!lines.isHopeless)
        lines.read(Array("x\nx\n".utf8)) { _, _ in }
        #expect(lines.isHopeless)
        #expect(lines.badLines.map(\.number) == [1, 3, 5, 7, 9, 11, 13, 15, 17, 19])
    }
}
