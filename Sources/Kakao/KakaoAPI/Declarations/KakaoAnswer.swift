import JSON
package import Schemas

/// The body of a successful response of Kakao: how it is read, how the sandbox writes it, and how a document describes
/// it.
package final class KakaoAnswer<Value: Sendable>: Sendable {
    /// The schema of the JSON; `nil` for a body that has no meaning.
    package let schema: Schema?
    /// An answer as Kakao's documentation shows it. The sandbox gives it to calls that it keeps no state for.
    package let example: Value
    /// Returns the body of an answer.
    package let encode: @Sendable (Value) -> [UInt8]
    /// Returns `nil` for a body that does not match Kakao's documentation.
    let decode: @Sendable ([UInt8]) -> Value?

    private init(
        schema: Schema?,
        example: Value,
        encode: @escaping @Sendable (Value) -> [UInt8],
        decode: @escaping @Sendable ([UInt8]) -> Value?
    ) {
        self.schema = schema
        self.example = example
        self.encode = encode
        self.decode = decode
    }

    /// An answer in JSON.
    package static func json(_ kind: Kind<Value>, example: Value) -> KakaoAnswer {
        KakaoAnswer(
            schema: kind.output,
            example: example,
            encode: { value in
                var json = JSONWriter()
                kind.write(value, &json)
                return json.bytes
            },
            decode: { body in
                guard let json = try? JSONValue(parsing: body, maximumDepth: 32) else { return nil }
                return try? kind.read(json)
            }
        )
    }
}

extension KakaoAnswer where Value == Void {
    /// An answer whose status says everything. A body is ignored.
    package static let empty = KakaoAnswer(schema: nil, example: (), encode: { [] }, decode: { _ in () })
}
