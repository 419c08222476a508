import JSON
import Schemas
import Sharing

// The columns of a message's content.
extension MessageContent {
    /// - Parameters:
    ///   - template: The default template as JSON text.
    ///   - arguments: The arguments of the custom template as JSON text.
    /// - Returns: `nil` if there is no content.
    init?(template: String?, templateID: Int64?, arguments: String?, url: String?) {
        let arguments = arguments.flatMap(Self.object)?.members
            .reduce(into: [:]) { $0[$1.name] = $1.value.anyText }
        if let template, let object = Self.object(template) {
            self = .template(object)
        } else if let url {
            self = .page(url, templateID: templateID, args: arguments)
        } else if let templateID {
            self = .custom(templateID, args: arguments)
        } else {
            return nil
        }
    }

    private static func object(_ text: String) -> JSONObject? { try? JSONValue(parsing: Array(text.utf8)).object }

    /// The default template as JSON text.
    var template: String? {
        guard case .template(let object) = self else { return nil }
        return JSONValue.object(object).description
    }

    /// The arguments of the custom template; `nil` without any.
    var arguments: JSONObject? {
        switch self {
        case .template: nil
        case .custom(_, let args), .page(_, _, let args):
            args?.sorted { $0.key < $1.key }.reduce(into: JSONObject()) { $0[$1.key] = .string($1.value) }
        }
    }

    var url: String? { if case .page(let url, _, _) = self { url } else { nil } }
}
