import JSON
import TestSupport
import Testing

@Suite("Objects")
struct ObjectTests {
    @Test("Members keep the order of the text, few or many")
    func order() throws {
        for count in [0, 1, 2, 15, 16, 17, 18, 100] {
            let names = (0..<count).map { "n\(($0 * 7919) % 1000)" }
            let text = "{" + names.map { "\"\($0)\":\"\($0)\"" }.joined(separator: ",") + "}"
            let object = try #require(JSONValue(parsing: text).object)
            #expect(object.members.map(\.name) == names)
            #expect(names.allSatisfy { object[$0] == .string($0) })
            #expect(object["absent"] == nil)
            #expect(object.count == count)
            #expect(object.isEmpty == (count == 0))
        }
    }

    @Test("Setting a member replaces its value in place or appends it; setting nil removes it")
    func setting() {
        var object: JSONObject = ["a": 1, "b": 2, "c": 3]
        object["b"] = "two"
        #expect(object == ["a": 1, "b": "two", "c": 3])
        object["d"] = [4]
        #expect(object == ["a": 1, "b": "two", "c": 3, "d": [4]])
        object["a"] = nil
        #expect(object == ["b": "two", "c": 3, "d": [4]])
        object["absent"] = nil
        #expect(object.count == 3)
        object["b"] = .null
        #expect(object["b"] == .null)
    }

    @Test("Removing a member returns its value and keeps the order of the others")
    func removing() {
        var object: JSONObject = ["a": 1, "b": 2, "c": 3]
        #expect(object.removeValue(forName: "b") == 2)
        #expect(object.removeValue(forName: "b") == nil)
        #expect(object == ["a": 1, "c": 3])
    }

    @Test("Renaming keeps the member's place and never creates a duplicate name")
    func renaming() {
        var object: JSONObject = ["for_apns": 1, "for_gcm": 2, "bypass": true]
        let isRenamed = object.rename("for_gcm", to: "for_fcm")
        #expect(isRenamed)
        #expect(object == ["for_apns": 1, "for_fcm": 2, "bypass": true])
        let isAbsentRenamed = object.rename("absent", to: "x")
        let isTakenGiven = object.rename("for_fcm", to: "bypass")
        let isSameGiven = object.rename("bypass", to: "bypass")
        #expect(!isAbsentRenamed && !isTakenGiven && isSameGiven)
        #expect(object == ["for_apns": 1, "for_fcm": 2, "bypass": true])
    }

    @Test("An object behaves like an ordered list of members, below and above the size at which it starts to hash")
    func comparedWithAList() {
        var random = SplitMix64(seed: 2026)
        for _ in 0..<40 {
            var object = JSONObject()
            var list: [(name: String, value: JSONValue)] = []
            for step in 0..<120 {
                let name = "name \(Int.random(in: 0..<40, using: &random))"
                let position = list.firstIndex { $0.name == name }
                switch Int.random(in: 0..<8, using: &random) {
                case 0, 1:
                    let removed = object.removeValue(forName: name)
                    #expect(removed == position.map { list[$0].value })
                    if let position { list.remove(at: position) }
                case 2:
                    let other = "name \(Int.random(in: 0..<40, using: &random))"
                    let isTaken = list.contains { $0.name == other } && other != name
                    #expect(object.rename(name, to: other) == (position != nil && !isTaken))
                    if let position, !isTaken { list[position].name = other }
                default:
                    object[name] = .integer(step)
                    if let position {
                        list[position].value = .integer(step)
                    } else {
                        list.append((name, .integer(step)))
                    }
                }
                #expect(object.members.map(\.name) == list.map(\.name))
                #expect(list.allSatisfy { object[$0.name] == $0.value })
            }
        }
    }

    @Test("Objects are equal when they have the same members in the same order")
    func equality() {
        #expect(["a": 1, "b": 2] as JSONObject != ["b": 2, "a": 1])
        #expect(["a": 1] as JSONObject != ["a": 1, "b": 2])
        #expect(["a": 1] as JSONObject != ["a": 2])
        #expect([:] as JSONObject == JSONObject())
    }

    @Test("If a literal repeats a name, the last value counts, in the place of the first")
    func literals() {
        #expect(["a": 1, "b": 2, "a": 3] as JSONObject == ["a": 3, "b": 2])
    }
}
