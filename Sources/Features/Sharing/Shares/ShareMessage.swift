import JSON
import KakaoAPI
import Net
import Settings

/// The message of a share as Kakao's SDKs make it, and the addresses with which they open KakaoTalk's picker of friends.
/// (Names as in Kakao's iOS SDK, `ShareApi`.)
struct ShareMessage: Sendable {
    private static let linkVersion = "4.0"
    private static let sharerURL = "https://sharer.kakao.com/talk/friends/picker/easylink"
    /// The length of Kakao's app keys.
    private static let keyLength = 32

    let content: MessageContent
    /// The custom arguments with their signature.
    let callbackArgs: JSONObject
    /// The identity of the app; `nil` if it is not configured.
    let app: ShareApp?

    /// The address of Kakao's web page that lets a user choose friends; `nil` without the identity of the app.
    var webAddress: String? {
        guard let app else { return nil }
        var query = FormBody()
        query.append("app_key", app.key)
        query.append("ka", app.ka)
        query.append("validation_action", validation.action)
        query.append("validation_params", JSONValue.object(validation.params).description)
        query.append("lcba", JSONValue.object(callbackArgs).description)
        return "\(Self.sharerURL)?\(String(decoding: query.bytes, as: UTF8.self))"
    }

    /// The check that Kakao makes of the message, with its parameters.
    private var validation: (action: String, params: JSONObject) {
        var params: JSONObject = ["link_ver": .string(Self.linkVersion)]
        switch content {
        case .template(let template):
            params["template_object"] = .object(template)
            return ("default", params)
        case .custom(let id, let args):
            params["template_id"] = .integer(id)
            params["template_args"] = args.map { .object(JSONObject($0)) }
            return ("custom", params)
        case .page(let url, let id, let args):
            params["request_url"] = .string(url)
            params["template_id"] = id.map { .integer($0) }
            params["template_args"] = args.map { .object(JSONObject($0)) }
            return ("scrap", params)
        }
    }

    /// Returns Kakao's answer to the check of the message.
    func validate(_ kakao: KakaoClient) async throws(KakaoError) -> TemplateValidation {
        switch content {
        case .template(let template):
            try await kakao.call(ValidateDefaultTemplate(template: template), as: .appKey)
        case .custom(let id, let args):
            try await kakao.call(
                ValidateCustomTemplate(templateID: id, templateArgs: args.map { JSONObject($0) }),
                as: .appKey
            )
        case .page(let url, let id, let args):
            try await kakao.call(
                ValidateScrapTemplate(requestURL: url, templateID: id, templateArgs: args.map { JSONObject($0) }),
                as: .appKey
            )
        }
    }

    /// Returns the address that opens KakaoTalk on a phone with a message that Kakao has checked.
    func talkAddress(_ validation: TemplateValidation, _ app: ShareApp) -> String {
        var query = FormBody()
        query.append("appkey", app.key)
        query.append("appver", app.version)
        query.append("linkver", Self.linkVersion)
        query.append("template_json", JSONValue.object(validation.templateMessage).description)
        query.append("template_id", String(validation.templateID))
        if let args = validation.templateArgs {
            query.append("template_args", JSONValue.object(args).description)
        }
        query.append("extras", JSONValue.object(extras).description)
        return "kakaolink://send?\(String(decoding: query.bytes, as: UTF8.self))"
    }

    /// What the SDK says about the app, with the custom arguments as text.
    private var extras: JSONObject {
        var extras: JSONObject = ["lcba": .string(JSONValue.object(callbackArgs).description)]
        guard let app else { return extras }
        extras["KA"] = .string(app.ka)
        for (name, value) in app.extras { extras[name] = .string(value) }
        return extras
    }

    /// The number of bytes that the custom arguments have in the query of Kakao's callback.
    var callbackByteCount: Int {
        var query = FormBody()
        for (name, value) in callbackArgs.members { query.append(name, value.string ?? "") }
        return query.bytes.count
    }

    /// Returns the number of bytes of the message with everything that travels with it, as the SDKs count them.
    ///
    /// - Parameter validation: Kakao's answer. Without it, the content counts as it was given, which is less than Kakao
    ///   makes of it.
    func byteCount(_ validation: TemplateValidation?) -> Int {
        var message: JSONObject = [
            "ak": .string(app?.key ?? String(repeating: "0", count: Self.keyLength)),
            "av": .string(app?.version ?? ShareApp.defaultVersion), "lv": .string(Self.linkVersion),
            "extras": .object(extras),
        ]
        if let validation {
            message["ti"] = .integer(validation.templateID)
            message["ta"] = validation.templateArgs.map { .object($0) }
            for (name, value) in validation.templateMessage.members { message[name] = value }
        } else {
            for (name, value) in self.validation.params.members { message[name] = value }
        }
        return JSONValue.object(message).bytes().count
    }
}

/// The identity of an app that shares, as it stands in the header field `KA` of Kakao's SDKs.
struct ShareApp: Sendable {
    static let defaultVersion = "1.0"

    /// The native app key.
    let key: String
    /// The value of the header field `KA`: words such as `os/ios-17.0` and `origin/com.example.app`.
    let ka: String

    /// `nil` unless both are configured.
    init?(_ kakao: KakaoSettings) {
        guard let key = kakao.nativeAppKey, let ka = kakao.kaHeader else { return nil }
        self.key = key
        self.ka = ka
    }

    private func word(_ name: String) -> String? {
        ka.split(separator: " ").first { $0.hasPrefix("\(name)/") }.map { String($0.dropFirst(name.utf8.count + 1)) }
    }

    var version: String { word("app_ver") ?? Self.defaultVersion }

    /// The members by which KakaoTalk recognizes the app on a phone.
    var extras: [(name: String, value: String)] {
        let origin = word("origin") ?? ""
        if word("os")?.hasPrefix("android") == true {
            return [("appPkg", word("android_pkg") ?? ""), ("keyHash", origin)]
        }
        return word("os")?.hasPrefix("ios") == true ? [("iosBundleId", origin)] : []
    }
}

extension JSONObject {
    /// An object of texts, in the order of their names.
    init(_ texts: [String: String]) {
        self.init()
        for (name, text) in texts.sorted(by: { $0.key < $1.key }) { self[name] = .string(text) }
    }
}
