import Endpoints
import HTTPTypes

/// The tables of all operations in `docs/api.md`, written from their declarations.
package enum APITables {
    /// The tables under their headings, in the order of the OpenAPI document.
    package static var markdown: String { sections.joined(separator: "\n") }

    /// The heading and the table of each collection of operations.
    package static var sections: [String] {
        routeCollections.map { collection in
            let rows = collection.declarations.map { operation in
                "| `\(operation.method.rawValue) \(operation.path)` | \(operation.access.callers) | \(operation.summary) |\n"
            }
            return "### \(collection.title)\n\n| operation | caller | purpose |\n| --- | --- | --- |\n" + rows.joined()
        }
    }
}

extension Access {
    /// The callers, for a table: scopes stand for operators whose key has them.
    fileprivate var callers: String {
        switch self {
        case .anyone, .operatorPort: "anyone"
        case .operator(let scopes): scopes.map { "`\($0.rawValue)`" }.joined(separator: " and ")
        case .operatorWithAny(Scope.allCases): "any key"
        case .operatorWithAny(let scopes): scopes.map { "`\($0.rawValue)`" }.joined(separator: " or ")
        case .monitoring: "`\(Scope.read.rawValue)`"
        case .device: "user, `\(Scope.devices.rawValue)`"
        case .user: "user"
        case .kakaoUser(let scope, _): "user, `\(scope.rawValue)`"
        case .appKey(let scope): "app key, `\(scope.rawValue)`"
        case .kakao, .kakaoAddress: "Kakao"
        }
    }
}
