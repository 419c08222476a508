import Crypto
import Endpoints
import HTTPServer
import HTTPTypes
import Net
import Schemas

/// Reads a call from Kakao, which is never rejected: its arguments come from a phone, and Kakao does not repeat it. Values
/// that are missing or invalid are left out, and make the call malformed.
struct KakaoCallReader {
    /// The most bytes of a malformed call that are stored: more than any phone's share has.
    private static let maximumRaw = 8 * 1024

    /// Whether a part of the call was not understood, as far as it was read.
    private(set) var isMalformed: Bool

    private let call: Call

    init(_ call: Call) {
        self.call = call
        isMalformed = call.isMalformed
    }

    /// Returns the value of a field; `nil` if it is missing or invalid.
    mutating func value<Value>(_ field: Field<Value>) -> Value? {
        do {
            return try call[field]
        } catch {
            isMalformed = true
            return nil
        }
    }

    /// Returns the value of a field that may be missing; `nil` also if it is invalid.
    mutating func value<Value>(_ field: Field<Value?>) -> Value? {
        do {
            return try call[field]
        } catch {
            isMalformed = true
            return nil
        }
    }

    /// Marks the call as malformed.
    mutating func reject() { isMalformed = true }

    /// The id by which a repetition of the call is recognized. It is Kakao's id; the hash of an id that cannot be stored, such
    /// as one of 300 characters; or the hash of a malformed call without an id. `nil` for other calls without one.
    var resourceID: String? {
        if let id = try? call[Call.kakaoResourceID] { return id }
        if let given = call.request[Call.kakaoResourceIDName], !given.isEmpty { return Self.hash(Array(given.utf8)) }
        return isMalformed ? contentHash : nil
    }

    /// A hash of the call, which recognizes the repetition of a call without an id if each call of its kind has other contents.
    var contentHash: String { Self.hash(content) }

    /// The first bytes of what Kakao sent, if the call is malformed. Bytes that PostgreSQL cannot store are replaced.
    var raw: String? {
        isMalformed ? String(decoding: content.prefix(Self.maximumRaw), as: UTF8.self).withoutNUL : nil
    }

    /// The query and the body.
    private var content: [UInt8] {
        let (query, body) = (call.request.head.query, call.request.body)
        return query.isEmpty ? body : Array(query) + (body.isEmpty ? [] : [UInt8(ascii: "\n")] + body)
    }

    private static func hash(_ bytes: [UInt8]) -> String {
        let digits = SHA256Digest.of(bytes).map { $0 < 16 ? "0\(String($0, radix: 16))" : String($0, radix: 16) }
        return "sha256-\(digits.joined())"
    }
}

extension Call {
    /// The name of the header field with Kakao's id for a call.
    static let kakaoResourceIDName = HTTPField.Name.unvalidated("X-Kakao-Resource-ID")

    /// Kakao's id for a call, if it sent one.
    static let kakaoResourceID = Field.header(
        kakaoResourceIDName.rawName,
        .token(1...255),
        "Kakao's id of the call. A repetition with the same id has no further effect."
    )
}
