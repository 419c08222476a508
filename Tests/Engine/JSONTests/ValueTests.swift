import JSON
import Testing

@Suite("Values")
struct ValueTests {
    @Test("Each accessor returns a value for its own kind only")
    func accessors() {
        let values: [JSONValue] = [nil, true, 5, "s", [1], ["a": 1]]
        #expect(values.map(\.isNull) == [true, false, false, false, false, false])
        #expect(values.map(\.bool) == [nil, true, nil, nil, nil, nil])
        #expect(values.map(\.integer) == [nil, nil, 5, nil, nil, nil])
        #expect(values.map(\.number) == [nil, nil, JSONNumber(5), nil, nil, nil])
        #expect(values.map(\.string) == [nil, nil, nil, "s", nil, nil])
        #expect(values.map(\.array) == [nil, nil, nil, nil, [1], nil])
        #expect(values.map(\.object) == [nil, nil, nil, nil, nil, ["a": 1]])
    }

    @Test("A missing member or element is nil")
    func subscripts() throws {
        let value = try JSONValue(parsing: Documents.registration)
        #expect(value["timezone"]?.integer == 540)
        #expect(value["tags"]?[1]?.string == "서울")
        #expect(value["tags"]?[2] == nil)
        #expect(value["tags"]?[-1] == nil)
        #expect(value["tags"]?["0"] == nil)
        #expect(value["absent"] == nil)
        #expect(value[0] == nil)
    }

    @Test("A member with the value null is not missing")
    func nullIsThere() throws {
        #expect(try JSONValue(parsing: #"{"a":null}"#)["a"] == .some(.null))
    }

    @Test("Swift literals build any JSON value")
    func literals() throws {
        let user = 7
        let value: JSONValue = ["id": 5, "name": "user \(user)", "ok": true, "none": nil, "list": [1, "a", [:], []]]
        #expect(value.description == #"{"id":5,"name":"user 7","ok":true,"none":null,"list":[1,"a",{},[]]}"#)
    }

    @Test("Values are equal if and only if their texts are equal")
    func equality() {
        let values: [JSONValue] = [
            nil, true, false, 0, 1, "", "0", "\u{E9}", "e\u{301}", [], [nil], [0], [0, 0], [:], ["a": 0], ["a": 1],
            ["b": 0],
        ]
        for (i, left) in values.enumerated() {
            for (j, right) in values.enumerated() {
                #expect((left == right) == (i == j))
            }
        }
    }
}
