import HTTPClient
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import Testing

/// The validation of templates, and images for messages.
@Suite struct SharingTests {
    private static let path = "/v2/api/kakaolink/talk/template"

    private static func call(
        _ fixture: Fixture,
        _ path: String,
        _ fields: KeyValuePairs<String, String>,
        method: HTTPRequest.Method = .post,
        ka: String? = "sdk/2.27.3 os/ios-17.0"
    ) async throws -> HTTPClientResponse {
        try await fixture.call(path, fields, method: method, authorization: "KakaoAK sandbox-native-app-key", ka: ka)
    }

    @Test("A default template becomes arguments of Kakao's own template, by GET and by POST", arguments: [true, false])
    func feed(isForm: Bool) async throws {
        try await withSandbox { fixture in
            let template = """
                {"object_type":"feed","content":{"title":"Cake","link":{"web_url":"https://example.com",\
                "ios_execution_params":"a=1"}},"social":{"like_count":3},"button_title":"Open"}
                """
            let answer = try await Self.call(
                fixture,
                "\(Self.path)/default",
                ["link_ver": "4.0", "template_object": template, "scheme_params": "{}"],
                method: isForm ? .post : .get
            )
            #expect(answer.status == 200)
            #expect(answer.json?["template_id"] == 17_888)
            let args = answer.json?["template_args"]
            #expect(args?["${TITLE}"] == "Cake")
            #expect(args?["${DESCRIPTION}"] == "")
            #expect(args?["${WEB_URL}"] == "https://example.com")
            #expect(args?["${IOS_EXECUTION_URL}"] == "kakaosandbox-native-app-key://kakaolink?a=1")
            #expect(args?["${LIKE_COUNT}"] == "3")
            #expect(args?["${VIEW_COUNT}"] == "0")
            #expect(args?["${FIRST_BUTTON_TITLE}"] == "Open")
            #expect(answer.json?["template_msg"]?["P"]?["TP"] == "Feed")
            #expect(answer.json?["warning_msg"]?.object?.isEmpty == true)
        }
    }

    /// A default template, and the members that Kakao's answer has for it: of the message's header and of its content.
    private static let samples: [(template: String, content: Set<String>)] = {
        let link = #""link":{"web_url":"https://a.example","mobile_web_url":"https://a.example"}"#
        let content = #"{"title":"T","description":"D","image_url":"https://a.example/i.png",\#(link)}"#
        let contents = "[\(content),\(content)]"
        return [
            (#"{"object_type":"text","text":"Hi",\#(link)}"#, ["TI", "BUL"]),
            (#"{"object_type":"feed","content":\#(content)}"#, ["THC", "THL", "TI", "SO", "BUL"]),
            (
                #"{"object_type":"location","address":"Seoul","content":\#(content)}"#,
                ["THC", "THL", "TI", "SO", "BUL"]
            ),
            (
                #"{"object_type":"commerce","content":\#(content),"commerce":{"regular_price":10}}"#,
                ["THC", "THL", "TI", "CMC", "BUL"]
            ),
            (
                #"{"object_type":"list","header_title":"H","header_\#(link.dropFirst()),"contents":\#(contents)}"#,
                ["HD", "ITL", "BUL"]
            ),
        ]
    }()

    @Test("The answer to a validation has the members that Kakao's has", arguments: samples)
    func members(template: String, content: Set<String>) async throws {
        try await withSandbox { fixture in
            let fields: KeyValuePairs = ["link_ver": "4.0", "template_object": template, "scheme_params": "{}"]
            let answer = try await Self.call(fixture, "\(Self.path)/default", fields)
            func names(_ value: JSONValue?) -> Set<String> { Set(value?.object?.members.map(\.name) ?? []) }
            let all: Set = [
                "template_id", "template_args", "template_msg", "warning_msg", "argument_msg", "scheme_params",
            ]
            #expect(names(answer.json) == all)
            let message = answer.json?["template_msg"]
            let header: Set = [
                "TP", "ME", "SID", "DID", "SNM", "SIC", "L", "VA", "VI", "VW", "VM", "FW", "RF",
            ]
            #expect(names(message?["P"]) == header)
            #expect(names(message?["P"]?["L"]) == ["LPC", "LMO", "LCA", "LCI", "LCP", "LCM"])
            #expect(names(message?["C"]) == content)
            #expect(names(message?["C"]?["BUL"]?[0]) == ["BU", "L"])

            let needed: Set = ["template_id", "template_msg", "warning_msg", "argument_msg"]
            for (path, name, value) in [
                ("validate", "template_id", "5"), ("scrap", "request_url", "https://a.example"),
            ] {
                let answer = try await Self.call(fixture, "\(Self.path)/\(path)", ["link_ver": "4.0", name: value])
                #expect(names(answer.json).isSuperset(of: needed))
                #expect(names(answer.json?["template_msg"]?["P"]) == header)
                #expect(names(answer.json?["template_msg"]?["C"]) == ["TI"])
            }
        }
    }

    @Test("A link to a domain that is not registered is dropped with a warning")
    func domains() async throws {
        var settings = KakaoSandboxSettings()
        settings.domains = ["example.com"]
        try await withSandbox(settings) { fixture in
            let template = """
                {"object_type":"text","text":"Hi","link":{"web_url":"https://example.com/a","mobile_web_url":"https://m.example.com"}}
                """
            let answer = try await Self.call(
                fixture,
                "\(Self.path)/default",
                ["link_ver": "4.0", "template_object": template]
            )
            #expect(answer.json?["warning_msg"]?["P.L.LMO"]?.string?.contains("DOMAIN_CHECK_PASS") == true)
            let link = answer.json?["template_msg"]?["P"]?["L"]
            #expect(link?["LPC"] == "https://example.com/a")
            #expect(link?["LMO"] == nil)
        }
    }

    @Test("A template that Kakao cannot read is rejected with -2, a call without KA with -401")
    func refused() async throws {
        try await withSandbox { fixture in
            for template in ["{", "[]", #"{"object_type":"poster"}"#, #"{"object_type":"text","text":"Hi"}"#] {
                let fields: KeyValuePairs = ["link_ver": "4.0", "template_object": template]
                let answer = try await Self.call(fixture, "\(Self.path)/default", fields)
                #expect(answer.status == 400)
                #expect(answer.code == -2)
                #expect(answer.json?["msg"]?.string?.contains("name=template_object") == true)
            }
            let fields: KeyValuePairs = ["link_ver": "4.0", "template_id": "5"]
            #expect(try await Self.call(fixture, "\(Self.path)/validate", fields, ka: nil).code == -401)
            #expect(try await fixture.call("\(Self.path)/validate", fields).code == -401)
        }
    }

    @Test("A missing argument of a custom template is reported; those of a scraped page cannot be overwritten")
    func custom() async throws {
        var settings = KakaoSandboxSettings()
        settings.templateArguments = [12_345: ["title", "text"]]
        try await withSandbox(settings) { fixture in
            let custom = try await Self.call(
                fixture,
                "\(Self.path)/validate",
                ["link_ver": "4.0", "template_id": "12345", "template_args": #"{"title":"A"}"#]
            )
            #expect(custom.json?["template_id"] == 12_345)
            #expect(custom.json?["template_args"] == ["${title}": "A"])
            #expect(custom.json?["argument_msg"] == ["${text}": "there's no given value."])
            let page = try await Self.call(
                fixture,
                "\(Self.path)/scrap",
                ["link_ver": "4.0", "request_url": "https://example.com", "template_args": #"{"${TITLE}":"Mine"}"#]
            )
            #expect(page.json?["template_args"]?["${TITLE}"] == "The page https://example.com")
        }
    }

    @Test("A scraped image has an address at Kakao, the same each time, and can be deleted")
    func images() async throws {
        try await withSandbox { fixture in
            let path = "/v2/api/talk/message/image"
            var urls: Set<String> = []
            for _ in 0..<2 {
                let fields: KeyValuePairs = ["image_url": "https://example.com/a.png", "secure_resource": "true"]
                let answer = try await Self.call(fixture, "\(path)/scrap", fields)
                let original = answer.json?["infos"]?["original"]
                #expect(original?["width"] == 640)
                urls.insert(try #require(original?["url"]?.string))
            }
            #expect(urls.count == 1 && urls.allSatisfy { $0.hasPrefix("https://k.kakaocdn.net/") })
            let wrong = try await Self.call(fixture, "\(path)/scrap", ["image_url": "example"])
            #expect(wrong.code == -2)
            let fields: KeyValuePairs = ["image_url": urls.first ?? ""]
            let deleted = try await Self.call(fixture, "\(path)/delete", fields, method: .delete)
            #expect(deleted.status == 200)
            #expect(deleted.body.isEmpty)
        }
    }

    @Test("An uploaded image has another address each time; a file that Kakao does not accept is rejected as there")
    func uploads() async throws {
        try await withSandbox { fixture in
            let image = Array("GIF89a".utf8) + [3, 0, 2, 0, 0, 0, 0]
            for (number, secure, scheme) in [(1, nil, "https"), (2, "true", "https"), (3, "false", "http")] {
                let answer = try await Self.upload(fixture, [image], secure: secure)
                #expect(answer.status == 200)
                let original = answer.json?["infos"]?["original"]
                #expect(original?["url"]?.string == "\(scheme)://k.kakaocdn.net/14/dn/upload\(number)/original.gif")
                #expect(original?["content_type"] == "image/gif")
                #expect([original?["length"], original?["width"], original?["height"]] == [13, 3, 2])
            }
            #expect(fixture.sandbox.imageUploadCount == 3)
            let large = image + [UInt8](repeating: 0, count: 5 << 20)
            #expect(try await Self.upload(fixture, [large]).code == -602)
            #expect(try await Self.upload(fixture, [Array("BM".utf8)]).code == -911)
            #expect(try await Self.upload(fixture, [image, image]).code == -606)
            #expect(try await Self.upload(fixture, []).code == -2)
            #expect(try await Self.upload(fixture, [image], ka: nil).code == -401)
            #expect(fixture.sandbox.imageUploadCount == 3)

            let fields: KeyValuePairs = ["image_url": "https://k.kakaocdn.net/14/dn/upload1/original.gif"]
            _ = try await Self.call(fixture, "/v2/api/talk/message/image/delete", fields, method: .delete)
            #expect(fixture.sandbox.uploadedImages.map(\.width) == [3, 3])
            #expect(fixture.sandbox.imageUploadCount == 3)
        }
    }

    private static func upload(
        _ fixture: Fixture,
        _ files: [[UInt8]],
        secure: String? = nil,
        ka: String? = "sdk/2.27.3 os/ios-17.0"
    ) async throws -> HTTPClientResponse {
        var body: [UInt8] = []
        if let secure {
            body += Array("--b\r\nContent-Disposition: form-data; name=\"secure_resource\"\r\n\r\n\(secure)\r\n".utf8)
        }
        for file in files {
            body += Array("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\n\r\n".utf8)
            body += file + Array("\r\n".utf8)
        }
        body += Array("--b--\r\n".utf8)
        var request = HTTPClientRequest(
            method: .post,
            url: "\(fixture.sandbox.url)/v2/api/talk/message/image/upload",
            body: body
        )
        request.headerFields[.authorization] = "KakaoAK sandbox-native-app-key"
        request.headerFields[.contentType] = "multipart/form-data; boundary=b"
        if let ka, let name = HTTPField.Name("KA") { request.headerFields[name] = ka }
        return try await fixture.client.send(request)
    }
}
