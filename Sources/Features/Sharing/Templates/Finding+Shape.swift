package import Schemas
package import Templates

extension Finding {
    package static let shape = Shape<Finding>(
        "TemplateFinding",
        [
            .member("path", .text, "The place in the template, as a JSON path (RFC 9535).", \.path),
            .member("rule", .text, "The rule: an id that never changes.", \.rule),
            .member(
                "effect",
                .text(oneOf: Effect.allCases.map(\.rawValue)),
                "What Kakao does about it; `uncertain` if its documents do not say.",
                \.effect.rawValue
            ),
            .nullable("limit", .count, "The limit that is exceeded.") { $0.limit.map(Int64.init) },
            .nullable("value", .text, "The value or its measure.", \.value),
            .member("message", .text, "What is wrong, and what to do.", \.message),
        ]
    )
}
