import JSON
import KakaoAPI

/// `failure_info` of Kakao's answers to messages: the receivers that were not reached, by Kakao's code.
enum FailureInfo {
    private static let member = "failure_info"
    private static let receivers = "receiver_uuids"

    /// Returns the body of an answer with more failures. A body that is no object comes back unchanged.
    static func adding(_ failures: [FriendMessageAnswer.Failure], to body: [UInt8]) -> [UInt8] {
        guard !failures.isEmpty, var answer = (try? JSONValue(parsing: body))?.object else { return body }
        add(failures, to: &answer)
        return JSONValue.object(answer).bytes()
    }

    /// Adds failures to an answer or an error. A code that Kakao reports too keeps Kakao's text, and gets their receivers.
    static func add(_ failures: [FriendMessageAnswer.Failure], to answer: inout JSONObject) {
        var entries = entries(of: answer)
        for failure in failures {
            let code = Int64(failure.code.rawValue)
            if let index = entries.firstIndex(where: { $0["code"]?.integer == code }),
                var entry = entries[index].object
            {
                let reported = entry[receivers]?.array ?? []
                entry[receivers] = .array(reported + failure.receivers.map(JSONValue.string))
                entries[index] = .object(entry)
            } else {
                entries.append(failure.json)
            }
        }
        answer[member] = .array(entries)
    }

    /// Returns the entries that Kakao reports: several, or one as an object.
    private static func entries(of answer: JSONObject) -> [JSONValue] {
        switch answer[member] {
        case .array(let entries): entries
        case .object(let entry): [.object(entry)]
        case .none, .null, .bool, .number, .string: []
        }
    }
}
