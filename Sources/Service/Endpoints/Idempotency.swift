import Crypto
package import HTTPServer
import HTTPTypes
import Net
import Schemas

/// The idempotency of a request with the header `Idempotency-Key`, which is carried out once, however often it is repeated.
package struct Idempotency: Sendable {
    package let key: String
    /// The digest of the operator key: ``KeyIdentity/digest``. Operators choose idempotency keys independently.
    package let operatorKey: [UInt8]
    /// The SHA-256 of the request. The same key with another digest is an error.
    package let digest: [UInt8]

    package init(key: String, operatorKey: [UInt8], digest: [UInt8]) {
        self.key = key
        self.operatorKey = operatorKey
        self.digest = digest
    }

    /// The idempotency of a call of an operation that declares ``field``; `nil` for a call without the header.
    ///
    /// - Throws: ``Problem`` 400 for an invalid key.
    package init?(_ call: Call) throws {
        guard let key = try call[Self.field] else { return nil }
        // The digest includes path and query, because equal bodies at different paths are different requests.
        let query = call.request.head.query.isEmpty ? [] : Array("?".utf8) + call.request.head.query + Array("\n".utf8)
        self.init(
            key: key,
            operatorKey: call.caller.key?.digest ?? [],
            digest: SHA256Digest.of(Array("\(call.request.path)\n".utf8) + query + call.request.body)
        )
    }

    package static let field = Field.header(
        "Idempotency-Key",
        .token(1...255),
        "A key of the caller's choice. A request that is repeated with the same key and content has no further effect and gets the "
            + "first response; one with other content is rejected with 422."
    )

    /// The problem of a key that another request has used.
    package static var keyInUse: Problem {
        Problem(
            of: .idempotencyKeyInUse,
            "This Idempotency-Key was used with a different request. Send each new request with a new key."
        )
    }
}

extension ProblemKind {
    package static let idempotencyKeyInUse = ProblemKind(
        .unprocessableContent,
        "idempotency-key-in-use",
        "This `Idempotency-Key` was used with a different request."
    )
}
