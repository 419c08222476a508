package import HTTPTypes
import JSON
package import Net
package import Schemas

/// The declaration of a call of Kakao's API.
///
/// A class, so that a call that refers to it costs one reference count and not one per property.
package final class KakaoOperation<Call: KakaoCall>: Sendable {
    /// The name in metrics and of the call's fixture, such as `talk_profile`.
    package let name: String
    /// The methods that Kakao accepts. The client uses the first.
    package let methods: [HTTPRequest.Method]
    package let host: KakaoHost
    /// The path, in which `{name}` stands for the parameter of that name.
    package let path: String
    /// Other paths of the same call, which older clients use. The client calls ``path``.
    package let aliases: [String]
    package let family: KakaoFamily
    /// The credentials that Kakao accepts for the call, one of which a request has.
    package let credentials: [KakaoCredential.Kind]
    /// Whether calling twice has the effect of calling once.
    package let isIdempotent: Bool
    /// A sentence for a list of all calls.
    package let summary: String
    /// The parameters: of the path, of the query of a GET or DELETE, of the form or the JSON of a POST.
    package let parameters: Record<Call>
    package let answer: KakaoAnswer<Call.Answer>
    /// Whether the parameters of a POST are a JSON object, and not a form.
    package let sendsJSON: Bool
    /// The name of the parts of a multipart form that contain the uploaded files; `nil` for a call without uploads.
    package let uploadPart: String?
    /// The maximum number of uploaded files.
    package let maximumUploads: Int
    /// Whether the server relays the call as it is. A call whose effects reach the server's own data has an endpoint of
    /// its own instead.
    package let isRelayed: Bool
    /// Whether a user may make the call who has logged in and is not linked to the app: who has not signed up yet.
    package let admitsUnlinked: Bool
    /// Whether the answer is a page, with the addresses of others in `before_url` and `after_url`.
    package let isPaged: Bool
    /// The time limit of a call, if it is not the client's.
    let timeout: Duration?
    /// Encodes the form of a call that is made so often that ``parameters`` would be too slow.
    let encodeForm: (@Sendable (Call) -> FormBody)?

    /// The parts of ``path``: literal texts, and parameters.
    private let pathParts: [PathPart]
    /// The parameters that are not in the path.
    let contents: [Record<Call>.Member]
    /// The parameters that must not be shown.
    private let secretMembers: [Record<Call>.Member]

    private enum PathPart: Sendable {
        case literal(String)
        case parameter(Record<Call>.Member)
    }

    /// Declares a call. The parameters are the properties of the same names.
    package init(
        _ name: String,
        _ methods: [HTTPRequest.Method],
        _ path: String,
        aliases: [String] = [],
        host: KakaoHost = .api,
        _ family: KakaoFamily,
        _ credentials: [KakaoCredential.Kind],
        isIdempotent: Bool? = nil,
        _ summary: String,
        parameters: Record<Call>,
        answer: KakaoAnswer<Call.Answer>,
        sendsJSON: Bool = false,
        uploadPart: String? = nil,
        maximumUploads: Int = 1,
        isRelayed: Bool = true,
        admitsUnlinked: Bool = false,
        isPaged: Bool = false,
        timeout: Duration? = nil,
        encodeForm: (@Sendable (Call) -> FormBody)? = nil
    ) {
        precondition(!methods.isEmpty && !credentials.isEmpty, "\(name) has no method or no credential")
        precondition(aliases.isEmpty || !path.contains("{"), "\(name) has aliases, and parameters in its path")
        self.name = name
        self.methods = methods
        self.path = path
        self.aliases = aliases
        self.host = host
        self.family = family
        self.credentials = credentials
        self.isIdempotent = isIdempotent ?? (methods[0] == .get || methods[0] == .delete)
        self.summary = summary
        self.parameters = parameters
        self.answer = answer
        self.sendsJSON = sendsJSON
        self.uploadPart = uploadPart
        self.maximumUploads = maximumUploads
        self.isRelayed = isRelayed
        self.admitsUnlinked = admitsUnlinked
        self.isPaged = isPaged
        self.timeout = timeout
        self.encodeForm = encodeForm
        // Every second part between the braces is a name.
        let parts = path.split(omittingEmptySubsequences: false) { $0 == "{" || $0 == "}" }.map(String.init)
        pathParts = parts.enumerated().map { index, part in
            guard index % 2 == 1 else { return .literal(part) }
            guard let member = parameters.members.first(where: { $0.name == part }) else {
                preconditionFailure("\(name) does not declare the parameter \(part) of its path")
            }
            return .parameter(member)
        }
        contents = parameters.members.filter { !path.contains("{\($0.name)}") }
        secretMembers = contents.filter(\.schema.isSecret)
    }

    /// Whether the parameters are in the query.
    var sendsQuery: Bool { methods[0] == .get || methods[0] == .delete }

    /// Returns the path of a request.
    func path(of call: Call) -> String {
        var path = ""
        for part in pathParts {
            switch part {
            case .literal(let text): path += text
            // The values are words of a choice or numbers, which need no encoding.
            case .parameter(let member): path += member.text(call) ?? ""
            }
        }
        return path
    }

    /// The paths of all requests: ``path`` with the values of a parameter that is a choice, and ``aliases``.
    package var paths: [String] {
        let own = pathParts.reduce([""]) { paths, part in
            let texts: [String] =
                switch part {
                case .literal(let text): [text]
                case .parameter(let member): member.schema.choices ?? ["{\(member.name)}"]
                }
            return paths.flatMap { path in texts.map { path + $0 } }
        }
        return aliases + own
    }

    /// Returns the parameters in a path of ``paths``.
    package func parameters(inPath path: String) -> [(name: String, text: String)] {
        zip(self.path.split(separator: "/"), path.split(separator: "/")).compactMap { pattern, segment in
            pattern.hasPrefix("{") ? (String(pattern.dropFirst().dropLast()), String(segment)) : nil
        }
    }

    /// Returns the parameters of a request, encoded for a query or a form.
    func form(of call: Call, maskingSecrets: Bool = false) -> FormBody {
        if let encodeForm { return encodeForm(call) }
        var form = FormBody()
        for (name, text) in texts(of: call) {
            let isMasked = maskingSecrets && secretMembers.contains { $0.name == name }
            form.append(name, isMasked ? "***" : text)
        }
        return form
    }

    /// Returns the parameters of a request as JSON.
    func json(of call: Call) -> [UInt8] {
        var json = JSONWriter()
        parameters.write(call, &json)
        return json.bytes
    }

    /// Returns the texts of a request that must not be shown.
    func secrets(of call: Call) -> [String] {
        secretMembers.compactMap { $0.text(call) }
    }

    /// Returns the parameters of a request that are not in the path, without those that are absent.
    func texts(of call: Call) -> [(name: String, text: String)] {
        contents.compactMap { member in member.text(call).map { (member.name, $0) } }
    }
}
