import FoundationEssentials
import JSON
import TestSupport
import Testing

@Suite("Writing")
struct WriterTests {
    private func text(_ body: (inout JSONWriter) -> Void) -> String {
        var writer = JSONWriter()
        body(&writer)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    @Test("A nested response is written member by member")
    func response() {
        let note: String? = nil
        let written = text { writer in
            writer.object { push in
                push.member("id", "0192f1c0")
                push.member("count", 5)
                push.member("note", note)
                push.member("rate", 12.5)
                push.object("users") { users in
                    users.member("total", Int64.max)
                    users.member("done", false)
                }
                push.array("batches") { batches in
                    batches.element(1)
                    batches.object { $0.member("state", "sent") }
                    batches.array { $0.element(UInt64.max) }
                    batches.object { _ in }
                }
                push.array("none") { _ in }
            }
        }
        #expect(
            written
                == #"{"id":"0192f1c0","count":5,"note":null,"rate":12.5,"#
                + #""users":{"total":9223372036854775807,"done":false},"#
                + #""batches":[1,{"state":"sent"},[18446744073709551615],{}],"none":[]}"#
        )
    }

    @Test("Integers are written exactly, up to the limits of their type")
    func integers() {
        for value in [0, 1, 9, 10, 99, 100, 1_234_567_890, .max, -1, -10, .min] as [Int64] {
            #expect(text { $0.value(value) } == String(value))
        }
        for value in [0, 42, Int.min, Int.max] { #expect(text { $0.value(value) } == String(value)) }
        for value in [Int32.min, -1, 0, .max] { #expect(text { $0.value(value) } == String(value)) }
        #expect(text { $0.value(UInt64.max) } == "18446744073709551615")
    }

    @Test("Infinity and NaN are written as null")
    func notFinite() {
        #expect(text { $0.value([Double.infinity, -Double.infinity, Double.nan, 0.5]) } == "[null,null,null,0.5]")
    }

    @Test("Quotes, backslashes and control characters are escaped, all other characters are not")
    func escapes() throws {
        #expect(text { $0.value("\"\\/\u{8}\u{C}\n\r\t") } == #""\"\\/\b\f\n\r\t""#)
        #expect(text { $0.value("\0\u{1}\u{F}\u{10}\u{1F}\u{7F}") } == "\"\\u0000\\u0001\\u000f\\u0010\\u001f\u{7F}\"")
        #expect(text { $0.value("한글 🎉 \u{2028}") } == "\"한글 🎉 \u{2028}\"")
        #expect(text { $0.object { $0.member("a\"b", 1) } } == #"{"a\"b":1}"#)
        for scalar in (0...0x2FF).compactMap(Unicode.Scalar.init) {
            let string = "before\(Character(scalar))\(Character(scalar))after"
            #expect(try JSONValue(parsing: text { $0.value(string) }).string == string)
        }
    }

    @Test("A JSON fragment is written unchanged")
    func fragments() {
        let written = text { writer in
            writer.array { array in
                array.element(JSONFragment(#"{"a":1.0}"#))
                array.element(JSONFragment(Array("[ ]".utf8)))
                array.element(["b": 2] as JSONValue)
                array.element(["c": 3] as JSONObject)
                array.element(JSONNumber(4))
            }
        }
        #expect(written == #"[{"a":1.0},[ ],{"b":2},{"c":3},4]"#)
    }

    @Test("A custom type can be written wherever a value is allowed")
    func ownTypes() {
        struct User: JSONWritable {
            let id: Int64
            func write(to writer: inout JSONWriter) { writer.object { $0.member("id", id) } }
        }
        #expect(text { $0.value([User(id: 1), nil, User(id: 2)] as [User?]) } == #"[{"id":1},null,{"id":2}]"#)
    }

    @Test("One buffer can be reused for many texts")
    func reuse() {
        var writer = JSONWriter(appendingTo: Array("data: ".utf8))
        writer.value(1)
        writer.newline()
        writer.array { $0.element("x") }
        #expect(String(decoding: writer.bytes, as: UTF8.self) == "data: 1\n[\"x\"]")
        writer.removeAll()
        writer.value(true)
        #expect(String(decoding: writer.bytes, as: UTF8.self) == "true")
    }

    @Test("An error in the middle of a response reaches the caller, and the writer stays usable")
    func errors() {
        struct Failure: Error {}
        var writer = JSONWriter()
        #expect(throws: Failure.self) {
            try writer.object { object in
                object.member("a", 1)
                try object.array("b") { _ in throw Failure() }
            }
        }
        writer.removeAll()
        writer.value(1)
        #expect(writer.bytes == Array("1".utf8))
    }

    @Test("Foundation's parser reads written strings back unchanged")
    func anotherReader() throws {
        var random = SplitMix64(seed: 8259)
        for _ in 0..<300 {
            let strings = (0..<8).map { _ in randomString(using: &random) }
            let read = try JSONDecoder().decode([String].self, from: Data(text { $0.value(strings) }.utf8))
            #expect(read.map { Array($0.utf8) } == strings.map { Array($0.utf8) })
        }
    }

    private func randomString(using random: inout SplitMix64) -> String {
        var string = ""
        for _ in 0..<Int.random(in: 0..<24, using: &random) {
            let range: ClosedRange<UInt32> =
                [0...0x7F, 0x80...0x7FF, 0xAC00...0xD7A3, 0x1_0000...0x10_FFFF].randomElement(using: &random) ?? 0...0
            if let scalar = Unicode.Scalar(UInt32.random(in: range, using: &random)) {
                string.unicodeScalars.append(scalar)
            }
        }
        return string
    }
}
