import JSON
import Templates

/// The links of a share: the addresses on registered domains that its content leads to, in their order.
///
/// A landing address names a link by its number, so that the server redirects to these addresses only.
struct ShareLinks: Sendable {
    /// The maximum number of links. A message has fewer.
    private static let maximumLinks = 20
    /// The members with a link.
    private static let linkNames: Set<String> = ["link", "header_link"]
    private static let addressNames: Set<String> = ["web_url", "mobile_web_url"]
    private static let paramNames: Set<String> = ["android_execution_params", "ios_execution_params"]

    private(set) var addresses: [String] = []
    /// The execution params of the first link that has some.
    private(set) var executionParams: String?
    private let domains: RegisteredDomains

    init(of content: MessageContent, _ domains: RegisteredDomains) {
        self.domains = domains
        switch content {
        case .template(let template):
            Self.visitLinks(in: .object(template)) { link in
                for (name, value) in link.members {
                    guard let text = value.string else { continue }
                    if Self.addressNames.contains(name) { add(text) }
                    if Self.paramNames.contains(name), executionParams == nil, !text.isEmpty { executionParams = text }
                }
            }
        case .custom: break
        case .page(let url, _, _): add(url)
        }
    }

    private mutating func add(_ address: String) {
        guard addresses.count < Self.maximumLinks, !addresses.contains(address), domains.contains(address: address)
        else {
            return
        }
        addresses.append(address)
    }

    private static func visitLinks(in value: JSONValue, _ visit: (JSONObject) -> Void) {
        switch value {
        case .object(let object):
            for (name, value) in object.members {
                if linkNames.contains(name), let link = value.object {
                    visit(link)
                } else {
                    visitLinks(in: value, visit)
                }
            }
        case .array(let elements): for element in elements { visitLinks(in: element, visit) }
        default: break
        }
    }

    /// Returns execution params that begin with a share's id, so that the app learns which share it was opened by.
    static func executionParams(_ id: ShareID, _ own: String?) -> String {
        "share=\(id.text)" + (own.map { "&\($0)" } ?? "")
    }

    /// Returns a template whose links lead through the landing addresses of a share, and whose execution params have the
    /// share's id.
    ///
    /// - Parameter landing: Returns the landing address of the link with a number.
    func tracked(_ template: JSONObject, _ id: ShareID, _ landing: (Int) -> String) -> JSONObject {
        Self.replacingLinks(in: .object(template)) { link in
            var link = link
            for (name, value) in link.members {
                guard let text = value.string else { continue }
                if Self.addressNames.contains(name), let number = addresses.firstIndex(of: text) {
                    link[name] = .string(landing(number))
                }
                if Self.paramNames.contains(name), !text.isEmpty {
                    link[name] = .string(Self.executionParams(id, text))
                }
            }
            return link
        }
        .object ?? template
    }

    private static func replacingLinks(in value: JSONValue, _ replace: (JSONObject) -> JSONObject) -> JSONValue {
        switch value {
        case .object(var object):
            for (name, value) in object.members {
                if linkNames.contains(name), let link = value.object {
                    object[name] = .object(replace(link))
                } else {
                    object[name] = replacingLinks(in: value, replace)
                }
            }
            return .object(object)
        case .array(let elements): return .array(elements.map { replacingLinks(in: $0, replace) })
        default: return value
        }
    }
}
