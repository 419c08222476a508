import FoundationEssentials
import HTTPServer
import JSON
import Schemas

/// The response of an operation with one of the problems that share a status.
struct ProblemResponse {
    /// The status as the document names it: `404`, or `4XX` for any of Kakao's.
    let status: String
    private let kinds: [ProblemKind]

    /// Returns the responses of an operation with problems, sorted by status.
    static func all(of operation: OperationDeclaration) -> [ProblemResponse] {
        let byStatus = Dictionary(grouping: operation.allProblems, by: \.statusName)
        return byStatus.sorted { $0.key < $1.key }.map { status, kinds in
            // A status of Kakao's may be one that the operation has for other problems too.
            let others = status.hasPrefix("4") && status != "4XX" ? byStatus["4XX"] ?? [] : []
            return ProblemResponse(status: status, kinds: kinds + others)
        }
    }

    /// The name of the component: the problems and their status, such as `AnotherUserOrMissingScope403`. Generators of
    /// clients can make a type's name of it.
    var name: String {
        let names = kinds.map { $0.name.split(separator: "-").map(\.capitalized).joined() }
        return names.joined(separator: "Or") + status
    }

    private static let answeredBy: JSONValue = [
        "description": "`kakao` if the status, `code` and `msg` are Kakao's, otherwise `server`.",
        "schema": ["type": "string", "enum": ["kakao", "server"]],
    ]

    var object: JSONObject { added(to: JSONObject()) }

    /// Returns another response with the same status, extended by these problems.
    func added(to response: JSONObject) -> JSONObject {
        var response = response
        let causes = kinds.map { "`\($0.name)`: \($0.cause)" }
        let descriptions = [response["description"]?.string].compactMap(\.self) + causes
        response["description"] = .string(descriptions.joined(separator: "\n\n"))
        var content = response["content"]?.object ?? JSONObject()
        content["application/problem+json"] = ["schema": .object(Problem.schema.object)]
        response["content"] = .object(content)
        var headers = response["headers"]?.object ?? JSONObject()
        headers["X-Answered-By"] = Self.answeredBy
        response["headers"] = .object(headers)
        return response
    }
}
