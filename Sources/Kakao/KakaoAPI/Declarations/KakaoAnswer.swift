import JSON
package import Schemas

/// The body of a successful response of Kakao: how it is read, how the sandbox writes it, and how a document describes
/// it.
package final class KakaoAnswer<Value: Sendable>: Sendable {
    /// The schema of the JSON; `nil` for a body that has no meaning.
    package let schema: Schema?
    /// Whether an empty body is an answer.
    package let admitsEmpty: Bool
    /// An answer as Kakao's documentation shows it. The sandbox gives it to calls that it keeps no state for.
    package let example: Value
    /// Returns the body of an answer.
    package let encode: @Sendable (Value) -> [UInt8]
    /// Returns `nil` for a body that does not match Kakao's documentation.
    let decode: @Sendable ([UInt8]) -> Value?

    private init(
        schema: Schema?,
        admitsEmpty: Bool,
        example: Value,
        encode: @escaping @Sendable (Value) -> [UInt8],
        decode: @escaping @Sendable ([UInt8]) -> Value?
    ) {
        self.schema = schema
        self.admitsEmpty = admitsEmpty
        self.example = example
        self.encode = encode
        self.decode = decode
    }

    /// An answer in JSON.
    package static func json(_ kind: Kind<Value>, example: Value) -> KakaoAnswer {
        KakaoAnswer(
            schema: kind.output,
            admitsEmpty: false,
            example: example,
            encode: { value in
                var json = JSONWriter()
                kind.write(value, &json)
                return json.bytes
            },
            decode: { body in
                guard let json = try? JSONValue(parsing: body, maximumDepth: 32), !json.reportsError else { return nil }
                return try? kind.read(json)
            }
        )
    }

    /// An answer in JSON, or without content: `nil`.
    package static func jsonOrEmpty<Content>(_ kind: Kind<Content>, example: Content) -> KakaoAnswer
    where Value == Content? {
        let json = KakaoAnswer<Content>.json(kind, example: example)
        return KakaoAnswer(
            schema: kind.output,
            admitsEmpty: true,
            example: example,
            encode: { $0.map(json.encode) ?? [] },
            decode: { body in
                if body.isEmpty { return .some(nil) }
                return json.decode(body).map { .some($0) }
            }
        )
    }
}

extension KakaoAnswer where Value == Void {
    /// An answer without content. Its body is empty, or JSON that reports no error: what else it has is ignored.
    package static let empty = KakaoAnswer(
        schema: nil,
        admitsEmpty: true,
        example: (),
        encode: { [] },
        decode: { $0.isEmpty || reportsNoError($0) ? () : nil }
    )
}

/// Returns whether a body is a JSON object or array that reports no error.
func reportsNoError(_ body: [UInt8]) -> Bool {
    guard let json = try? JSONValue(parsing: body, maximumDepth: 32) else { return false }
    return (json.object != nil || json.array != nil) && !json.reportsError
}

extension JSONValue {
    /// Whether it is an object with an `error`, or a `code` other than 0, whatever system uses them. No success of Kakao's has
    /// either.
    fileprivate var reportsError: Bool {
        guard let object else { return false }
        return object["error"] != nil || object["code"].map { $0.integer != 0 } ?? false
    }
}
