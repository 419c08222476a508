import JSON
import Schemas
import Testing

/// Objects that are read, written and described from one list of members.
@Suite struct RecordTests {
    private struct Receipt: Sendable, Equatable {
        let userID: Int64
        let tags: [String]?
        let note: String?

        static let record = Record<Receipt>(
            .required("user_id", \.userID, .userID, "The user."),
            .optional("tags", \.tags, .texts(count: 1...3, length: 1...10), "Tags."),
            .optional("note", \.note, .text(1...5), "A note."),
            make: Receipt.init
        )
    }

    @Test("A boolean may be a text in any case", arguments: ["true", "True", "TRUE", "false", "False", "fAlSe"])
    func boolean(text: String) throws {
        let value = try Kind<Bool>.boolean.read(.string(text))
        #expect(value == (text.first == "t" || text.first == "T"))
    }

    @Test("Another text is no boolean", arguments: ["", "1", "yes", "truе", " true", "true "])
    func notBoolean(text: String) {
        #expect(throws: InvalidValue.self) { try Kind<Bool>.boolean.read(.string(text)) }
    }

    private static func object(_ json: String) throws -> JSONObject {
        try #require(JSONValue(parsing: json).object)
    }

    @Test(
        "A value is read from what was written",
        arguments: [
            (
                Receipt(userID: .max, tags: ["a", "b"], note: "x"),
                #"{"user_id":"9223372036854775807","tags":["a","b"],"note":"x"}"#
            ),
            (Receipt(userID: 1, tags: nil, note: nil), #"{"user_id":"1"}"#),
        ]
    )
    private func roundTrip(receipt: Receipt, json: String) throws {
        var writer = JSONWriter()
        Receipt.record.write(receipt, &writer)
        #expect(String(decoding: writer.bytes, as: UTF8.self) == json)
        #expect(try Receipt.record.read(Self.object(json)) == receipt)
    }

    @Test("The values of a form are texts, and arrays are JSON in a text")
    func form() throws {
        let receipt = Receipt(userID: 7, tags: ["a"], note: nil)
        let texts = Receipt.record.members.map { $0.text(receipt) }
        #expect(texts == ["7", #"["a"]"#, nil])
        let object: JSONObject = ["user_id": "7", "tags": #"["a"]"#]
        #expect(try Receipt.record.read(object) == receipt)
    }

    @Test("The text null in a form stands for an absent array, but not for an absent text")
    func nullText() throws {
        let receipt = try Receipt.record.read(["user_id": "7", "tags": "null", "note": "null"])
        #expect(receipt == Receipt(userID: 7, tags: nil, note: "null"))
    }

    @Test("An empty text stands for an absent member, unless the member may be empty or is required")
    func emptyText() throws {
        struct Note: Sendable {
            let text: String?

            static let record = Record<Note>(.optional("text", \.text, .text, "Any text."), make: Note.init)
        }
        let receipt = try Receipt.record.read(["user_id": "7", "tags": "", "note": ""])
        #expect(receipt == Receipt(userID: 7, tags: nil, note: nil))
        #expect(try Note.record.read(["text": ""]).text == "")
        #expect(throws: Record<Receipt>.InvalidMember.self) { try Receipt.record.read(["user_id": ""]) }
    }

    @Test("A missing or invalid member of a request is an error that names it")
    func invalid() throws {
        for (json, name) in [
            ("{}", "user_id"), (#"{"user_id":0}"#, "user_id"), (#"{"user_id":1,"note":"too long"}"#, "note"),
            (#"{"user_id":1,"tags":[]}"#, "tags"),
        ] {
            let error = #expect(throws: Record<Receipt>.InvalidMember.self) {
                try Receipt.record.read(Self.object(json))
            }
            #expect(error?.name == name)
        }
    }

    @Test("The reason of an invalid member is not among the allowed values")
    func reasons() throws {
        func error(_ tags: String) throws -> Record<Receipt>.InvalidMember? {
            #expect(throws: Record<Receipt>.InvalidMember.self) {
                try Receipt.record.read(["user_id": "7", "tags": .string(tags)])
            }
        }
        let (broken, other) = (try #require(try error("[1")), try #require(try error("{}")))
        #expect(broken.allowed == other.allowed && !broken.allowed.contains("JSON:"))
        #expect(broken.detail?.hasPrefix("Invalid JSON: ") == true && other.detail == nil)
    }

    @Test("An invalid optional member of a response counts as absent; a required one does not")
    func lenient() throws {
        let object = try Self.object(#"{"user_id":1,"tags":7,"note":"","more":{}}"#)
        #expect(try Receipt.record.readLeniently(object) == Receipt(userID: 1, tags: nil, note: nil))
        #expect(throws: Record<Receipt>.InvalidMember.self) { try Receipt.record.readLeniently(["tags": []]) }
    }

    @Test("A rule between members is checked in a request, but not in a response")
    func rule() throws {
        struct Range: Sendable {
            let first: Int64
            let last: Int64

            static let record = Record<Range>(
                .required("first", \.first, Kind<Int64>.integer(0...9), "The first."),
                .required("last", \.last, Kind<Int64>.integer(0...9), "The last."),
                make: Range.init,
                check: { range throws(Record<Range>.InvalidMember) in
                    guard range.first <= range.last else {
                        throw Record<Range>.InvalidMember("last", allowed: "at least first")
                    }
                }
            )
        }
        #expect(try Range.record.read(["first": 1, "last": 2]).last == 2)
        let error = #expect(throws: Record<Range>.InvalidMember.self) {
            try Range.record.read(["first": 2, "last": 1])
        }
        #expect(error?.name == "last")
        #expect(error?.isMissing == false)
        #expect(try Range.record.readLeniently(["first": 2, "last": 1]).last == 1)
    }

    @Test("A list of texts is separated by commas, or its name is repeated")
    func commaList() throws {
        let kind = Kind<[String]>.commaList(count: 3, length: 4)
        #expect(try kind.read("a,한,c") == ["a", "한", "c"])
        #expect(kind.text(["a", "b"]) == "a,b")
        for wrong: JSONValue in ["", ",", "a,", "a,,b", "a,b,c,d", "abcde", "a\n", ["a"], 1, .null] {
            #expect(throws: InvalidValue.self) { try kind.read(wrong) }
        }
        var fields = JSONObject()
        for (name, isAdded) in [("tags", true), ("tags", true), ("id", true), ("id", false)] {
            #expect(fields.append(name, "a", isRepeatable: name == "tags") == isAdded)
        }
        #expect(fields == ["tags": "a,a", "id": "a"])
    }

    @Test("An object of scalars has neither arrays, objects nor null")
    func scalars() throws {
        let kind = Kind<JSONObject>.scalars
        #expect(try kind.read(#"{"a":1,"b":"x","c":true}"#).count == 3)
        for wrong: JSONValue in ["x", "[]", #"{"a":[]}"#, #"{"a":{}}"#, #"{"a":null}"#] {
            #expect(throws: InvalidValue.self) { try kind.read(wrong) }
        }
    }

    @Test("An object without members is made of nothing")
    func empty() throws {
        struct Nothing: Sendable {}
        let record = Record<Nothing>(make: Nothing.init)
        #expect(record.members.isEmpty)
        _ = try record.read(["a": 1])
    }
}
