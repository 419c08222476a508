import JSON
import TestSupport
import Testing

/// No text may trap. A debug build checks every read through a pointer against its buffer, so that a read out of bounds
/// ends these tests.
@Suite("Robustness against any bytes")
struct RobustnessTests {
    @Test("A written value parses back to itself, and is written the same again", arguments: Documents.all)
    func roundTrip(text: String) throws {
        let value = try JSONValue(parsing: text)
        let written = value.bytes()
        #expect(try JSONValue(parsing: written) == value)
        #expect(try JSONValue(parsing: written).bytes() == written)
    }

    @Test(
        "A compact text is written back byte for byte, as Kakao must receive an operator's message",
        arguments: [
            Documents.registration, Documents.message,
            #"{"z":1,"a":[1.0,-0,1E400,0.10,1e-7],"한글":"\"\\\n\u0000 🎉","":{}}"#,
        ]
    )
    func byteForByte(text: String) throws {
        #expect(try JSONValue(parsing: text).description == text)
    }

    @Test("Every proper prefix of a text is rejected, except at trailing white space", arguments: Documents.all)
    func prefixes(text: String) throws {
        let bytes = Array(text.utf8)
        let last = try #require(bytes.lastIndex { $0 != 0x20 })
        for length in 0...last {
            let error = refusal(of: Array(bytes[..<length]))
            #expect(error != nil)
            #expect((error?.offset ?? -1) <= length)
        }
    }

    @Test("A damaged text is rejected, or parsed to a value that can be written and parsed again", arguments: 0..<8)
    func mutations(seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed))
        let documents = Documents.all.map { Array($0.utf8) }
        var accepted = 0
        for _ in 0..<5000 {
            let bytes = mutated(documents.randomElement(using: &random) ?? [], using: &random)
            do throws(JSONError) {
                let value = try JSONValue(parsing: bytes)
                accepted += 1
                let written = value.bytes()
                guard refusal(of: written) == nil, try JSONValue(parsing: written) == value else {
                    Issue.record("written and parsed again, the value differs: \(bytes)")
                    return
                }
            } catch {
                guard 0...bytes.count ~= error.offset, !error.message.isEmpty else {
                    Issue.record("\(error) for \(bytes)")
                    return
                }
            }
        }
        // Both outcomes must occur.
        #expect(accepted > 100)
        #expect(accepted < 4900)
    }

    @Test("Random bytes are rejected or parsed")
    func noise() {
        var random = SplitMix64(seed: 404)
        let alphabet = Array(#"[]{}:,"\u0189eE+-. tfn"#.utf8) + [0, 0x80, 0xC3, 0xED, 0xF4, 0xFF]
        for _ in 0..<10_000 {
            let length = Int.random(in: 0..<40, using: &random)
            let bytes = (0..<length).map { _ in alphabet.randomElement(using: &random) ?? 0 }
            if let error = refusal(of: bytes) { #expect(0...length ~= error.offset) }
        }
    }

    /// Applies one to four edits: changes a byte, or removes, duplicates or inserts a piece.
    private func mutated(_ original: [UInt8], using random: inout SplitMix64) -> [UInt8] {
        let tokens = [
            #"""#, #"\"#, "{", "}", "[", "]", ",", ":", "0", "-", ".", "e", #"\uD83D"#, "null", "\u{1}", " ", "한",
        ]
        var bytes = original
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            let at = Int.random(in: 0...bytes.count, using: &random)
            let piece = at..<min(bytes.count, at + Int.random(in: 0...6, using: &random))
            switch Int.random(in: 0..<5, using: &random) {
            case 0 where at < bytes.count: bytes[at] = UInt8.random(in: 0...255, using: &random)
            case 1: bytes.removeSubrange(piece)
            case 2: bytes.insert(contentsOf: bytes[piece], at: Int.random(in: 0...bytes.count, using: &random))
            case 3: bytes.insert(contentsOf: Array((tokens.randomElement(using: &random) ?? "").utf8), at: at)
            default: if at < bytes.count { bytes[at] ^= 1 << UInt8.random(in: 0..<8, using: &random) }
            }
        }
        return bytes
    }
}
