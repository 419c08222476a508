import JSON
import KakaoAPI
import Templates

/// KakaoTalk Sharing: the validation of templates, and images for messages.
struct SharingCalls: Sendable {
    /// The size of all simulated images, in pixels.
    private static let imageSize: Int64 = 640

    let settings: KakaoSandboxSettings
    let uploads: ImageUploads

    func add(to server: inout KakaoCallServer) {
        server.on(ValidateDefaultTemplate.self) { call, _ throws(KakaoRefusal) in
            guard let template = try? Template(json: JSONValue.object(call.template).description) else {
                throw .badParameter("failed to parse parameter. name=template_object, the template cannot be read")
            }
            return SharedMessage(template, settings).validation(call.schemeParams)
        }
        server.on(ValidateCustomTemplate.self) { call, _ in
            customValidation(call.templateID, call.templateArgs, call.schemeParams)
        }
        server.on(ValidateScrapTemplate.self) { call, _ in
            var args = call.templateArgs ?? JSONObject()
            // The caller cannot replace the arguments that Kakao takes from the page.
            args["${TITLE}"] = .string("The page \(call.requestURL)")
            args["${WEB_URL}"] = .string(call.requestURL)
            return customValidation(call.templateID ?? SharedMessage.templateID(.feed), args, call.schemeParams)
        }
        server.on(UploadImage.self) { call, caller throws(KakaoRefusal) in try uploads.add(call, caller.files) }
        server.on(ScrapeImage.self) { call, _ throws(KakaoRefusal) in
            guard call.imageURL.hasPrefix("http://") || call.imageURL.hasPrefix("https://") else {
                throw .badParameter("The Parameter [image_url] is not a URL.")
            }
            // The same image has the same address.
            let name = String(call.imageURL.utf8.reduce(UInt64(5381)) { $0 &* 33 ^ UInt64($1) }, radix: 16)
            let url = "\(call.secureResource == true ? "https" : "http")://k.kakaocdn.net/14/dn/\(name)/original.png"
            return SharedImage(
                url: url,
                contentType: "image/png",
                length: 63_541,
                width: Self.imageSize,
                height: Self.imageSize
            )
        }
        server.on(DeleteImage.self) { call, _ in uploads.remove(call.imageURL) }
    }

    /// Returns the answer for a custom template. A template whose arguments are not configured has none.
    private func customValidation(
        _ templateID: Int64,
        _ args: JSONObject?,
        _ schemeParams: JSONObject?
    ) -> TemplateValidation {
        var missing = JSONObject()
        for name in settings.templateArguments[templateID] ?? [] where args?[name] == nil {
            missing["${\(name)}"] = "there's no given value."
        }
        var values = JSONObject()
        for (name, value) in args?.members ?? [] {
            values[name.hasPrefix("${") ? name : "${\(name)}"] = value
        }
        let address = args?["${WEB_URL}"]
        let link: JSONObject = address.map { ["LPC": $0, "LMO": $0] } ?? [:]
        return TemplateValidation(
            templateID: templateID,
            templateArgs: args.map { _ in values },
            templateMessage: [
                "P": SharedMessage.header(settings, type: "Feed", link: link),
                "C": ["TI": ["TD": ["T": args?["${TITLE}"] ?? .string("Template \(templateID)")], "L": .object(link)]],
            ],
            warnings: [:],
            argumentWarnings: missing,
            schemeParams: schemeParams
        )
    }
}
