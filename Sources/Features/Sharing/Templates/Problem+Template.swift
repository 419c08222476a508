package import Endpoints
package import HTTPServer
import HTTPTypes
import JSON
package import Templates

extension ProblemKind {
    package static let invalidTemplate = ProblemKind(
        .badRequest,
        "invalid-template",
        "The template cannot be read, or Kakao would reject it."
    )
}

extension Problem {
    /// The problem of a template that cannot be read or sent, with the linter's findings.
    package static func invalidTemplate(_ detail: String, _ findings: [Finding]) -> Problem {
        Problem(
            of: .invalidTemplate,
            detail,
            members: [
                "findings": .array(
                    findings.prefix(20).map {
                        ["path": .string($0.path), "rule": .string($0.rule), "message": .string($0.message)]
                    }
                )
            ]
        )
    }

    /// Checks that Kakao would not reject a template.
    ///
    /// - Parameter findings: The linter's findings.
    /// - Throws: ``Problem`` 400 with the first rejection.
    package static func requireAccepted(_ findings: [Finding]) throws(Problem) {
        guard let rejection = findings.first(where: { $0.effect == .rejected }) else { return }
        throw .invalidTemplate("Kakao would reject the message. \(rejection.path): \(rejection.message)", findings)
    }
}
