import HTTPServer
import JSON
import Net
import Templates

/// An address that opens the picker of friends, as Kakao's SDKs make it: that of the web page `sharer.kakao.com`, or
/// `kakaolink://send`, which KakaoTalk handles. (Names as in Kakao's iOS SDK, `ShareApi`.)
struct SharedAddress {
    private static let sharer = "https://sharer.kakao.com/talk/friends/picker/easylink?"
    private static let talk = "kakaolink://send?"
    private static let linkVersion = "4.0"
    /// The size from which the SDKs refuse a message.
    private static let maximumBytes = 10_240

    /// The custom template; `nil` for a default one.
    private(set) var templateID: Int64?
    /// The custom arguments, which the phone passes on to Kakao.
    private(set) var arguments = JSONObject()

    /// Reads and checks an address as Kakao does.
    ///
    /// - Throws: ``Problem`` that says what Kakao would refuse.
    init(_ address: String, _ settings: KakaoSandboxSettings) throws(Problem) {
        if address.hasPrefix(Self.sharer) {
            let query = try Query(address.dropFirst(Self.sharer.count))
            try query.require("app_key", settings.nativeAppKey)
            try Self.checkCaller(try query.text("ka"))
            templateID = try Self.checkMessage(
                action: try query.text("validation_action"),
                try query.object("validation_params")
            )
            if let arguments = try query.optionalObject("lcba") { self.arguments = arguments }
        } else if address.hasPrefix(Self.talk) {
            let query = try Query(address.dropFirst(Self.talk.count))
            try query.require("appkey", settings.nativeAppKey)
            try query.require("linkver", Self.linkVersion)
            _ = try query.text("appver")
            let message = try query.object("template_json")
            guard message["P"]?.object != nil, message["C"]?.object != nil else {
                throw Self.refusal("template_json has no P or no C")
            }
            guard let id = Int64(try query.text("template_id")) else {
                throw Self.refusal("template_id is not a number")
            }
            templateID = SharedMessage.isOwn(id) ? nil : id
            let extras = try query.object("extras")
            try Self.checkCaller(extras["KA"]?.string ?? "")
            if let text = extras["lcba"]?.string { arguments = try Self.object(text, "extras.lcba") }
            guard address.utf8.count < 4 * Self.maximumBytes, query.byteCount < Self.maximumBytes else {
                throw Self.refusal("the message has \(query.byteCount) bytes; \(Self.maximumBytes) are too many")
            }
        } else {
            throw Self.refusal("the address begins neither with \(Self.sharer) nor with \(Self.talk)")
        }
        for (name, value) in arguments.members where value.string == nil {
            throw Self.refusal("the custom argument \(name) is not a text")
        }
    }

    /// Checks the header field `KA`, which says which SDK and which app call.
    private static func checkCaller(_ ka: String) throws(Problem) {
        let words = ka.split(separator: " ")
        guard words.contains(where: { $0.hasPrefix("sdk/") }), words.contains(where: { $0.hasPrefix("origin/") }) else {
            throw refusal("KA names no SDK or no origin")
        }
    }

    /// Checks the parameters of the web page. Returns the id of the custom template.
    private static func checkMessage(action: String, _ params: JSONObject) throws(Problem) -> Int64? {
        guard params["link_ver"]?.string == linkVersion else { throw refusal("link_ver is not \(linkVersion)") }
        switch action {
        case "default":
            guard let template = params["template_object"], template.object != nil,
                (try? Template(json: template.description)) != nil
            else { throw refusal("failed to parse parameter. name=template_object") }
            return nil
        case "custom":
            guard let id = params["template_id"]?.integer else { throw refusal("template_id is missing") }
            return id
        case "scrap":
            guard params["request_url"]?.string?.hasPrefix("http") == true else {
                throw refusal("request_url is missing")
            }
            return params["template_id"]?.integer
        default: throw refusal("validation_action is not default, custom or scrap")
        }
    }

    private static func object(_ text: String, _ name: String) throws(Problem) -> JSONObject {
        guard let object = (try? JSONValue(parsing: Array(text.utf8)))?.object else {
            throw refusal("\(name) is not a JSON object")
        }
        return object
    }

    private static func refusal(_ reason: String) -> Problem {
        ControlInput.problem("url", "is one that Kakao refuses: \(reason)", allowed: "an address made by an SDK")
    }

    /// The parameters of an address.
    private struct Query {
        private let items: [(name: String, value: String)]

        /// The size of the parameters without their encoding.
        var byteCount: Int { items.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count } }

        init(_ text: Substring) throws(Problem) {
            do {
                items = try FormURLEncoded.parse(Array(text.utf8)[...])
            } catch {
                throw SharedAddress.refusal(error.message)
            }
        }

        func text(_ name: String) throws(Problem) -> String {
            guard let item = items.first(where: { $0.name == name }), !item.value.isEmpty else {
                throw SharedAddress.refusal("\(name) is missing")
            }
            return item.value
        }

        func require(_ name: String, _ value: String) throws(Problem) {
            guard try text(name) == value else { throw SharedAddress.refusal("\(name) is not \(value)") }
        }

        func object(_ name: String) throws(Problem) -> JSONObject {
            try SharedAddress.object(try text(name), name)
        }

        func optionalObject(_ name: String) throws(Problem) -> JSONObject? {
            items.contains { $0.name == name } ? try object(name) : nil
        }
    }
}
