import Crypto
import FoundationEssentials
import ServiceKit
import TestSupport
import Testing

@testable import Endpoints
@testable import Sharing

/// The signatures of custom arguments.
struct ShareSignerTests {
    private static let key = Secret("signing-key-of-the-tests-0123456789")
    private static let other = Secret("another-key-of-the-tests-0123456789")
    private static let now = Date(timeIntervalSince1970: 1_799_999_999)
    private static let end = Date(timeIntervalSince1970: 1_800_000_000)
    private static let args = [(name: "product_id", value: "1234"), ("이름", "값"), ("a", "")]

    private static func signer(_ key: Secret? = key, _ others: [Secret] = []) throws -> ShareSigner {
        try #require(ShareSigner(signingKey: key, verificationKeys: others))
    }

    @Test("A signature is the documented one: id, expiry and MAC, whatever the order of the arguments")
    func vector() throws {
        let id = try #require(ShareID("AAECAwQFBgcICQoLDA0ODw"))
        // Computed with Python's hmac and struct: each part is preceded by its length as four bytes.
        let expected = "AAECAwQFBgcICQoLDA0ODw.1800000000.jc2nIconAW43hxowSm31Kw"
        for args in [Self.args, Self.args.reversed()] {
            #expect(try Self.signer().signature(of: id, expiresAt: Self.end, args) == expected)
            #expect(try Self.signer().verify(expected, args, at: Self.now) == .valid(id))
        }
    }

    @Test("A signature expires at its time, and parameters that Kakao adds do not break it")
    func expiry() throws {
        let (signer, id) = (try Self.signer(), ShareID(.v7()))
        let signature = signer.signature(of: id, expiresAt: Self.end, Self.args)
        #expect(signer.verify(signature, Self.args, at: Self.end) == .expired)
        let added = Self.args + [(name: "IS_SINGLE_CHATROOM", value: "true"), ("CHAT_MEMBER_COUNT_2", "5")]
        #expect(signer.verify(signature, added, at: Self.now) == .valid(id))
    }

    @Test("Every change of a character, and every added, removed or moved argument is invalid")
    func altered() throws {
        let (signer, id) = (try Self.signer(), ShareID(.v7()))
        let signature = signer.signature(of: id, expiresAt: Self.end, Self.args)
        for index in signature.unicodeScalars.indices {
            for replacement in ["A", "B", ".", "-", "9", "é", ""] {
                var changed = String.UnicodeScalarView(signature.unicodeScalars[..<index])
                changed.append(contentsOf: replacement.unicodeScalars)
                changed.append(contentsOf: signature.unicodeScalars[index...].dropFirst())
                guard String(changed) != signature else { continue }
                #expect(signer.verify(String(changed), Self.args, at: Self.now) == .invalid)
            }
        }
        let others: [[(name: String, value: String)]] = [
            [], Array(Self.args.dropLast()), Self.args + [("b", "")], Self.args + [Self.args[0]],
            Self.args + [("1234", "")], Self.args + [("", "")], Self.args + [("_A", "")],
            Self.args + [("\u{212A}", "")],
            [("product_id", "12345"), ("이름", "값"), ("a", "")],
            // The same characters, cut elsewhere.
            [("product_i", "d1234"), ("이름", "값"), ("a", "")],
            [("product_id", "1234이"), ("름", "값"), ("a", "")],
        ]
        for args in others { #expect(signer.verify(signature, args, at: Self.now) == .invalid) }
        for text in ["", ".", "..", "...", "a.b.c", "\(signature).", ".\(signature)", "\(signature).x"] {
            #expect(signer.verify(text, Self.args, at: Self.now) == .invalid)
        }
        var random = SplitMix64(seed: 17)
        for _ in 0..<1000 {
            let bytes = (0..<Int.random(in: 0...80, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            let text = String(decoding: bytes, as: UTF8.self)
            #expect(signer.verify(text, Self.args, at: Self.now) == .invalid)
        }
    }

    @Test("A key that moves from one setting to the other keeps its signatures valid; an unknown key is invalid")
    func rotation() throws {
        let id = ShareID(.v7())
        let signature = try Self.signer().signature(of: id, expiresAt: Self.end, Self.args)
        #expect(try Self.signer(Self.other, [Self.key]).verify(signature, Self.args, at: Self.now) == .valid(id))
        #expect(try Self.signer(nil, [Self.other, Self.key]).verify(signature, Self.args, at: Self.now) == .valid(id))
        #expect(try Self.signer(Self.other).verify(signature, Self.args, at: Self.now) == .invalid)
        #expect(try !Self.signer(nil, [Self.key]).canSign)
        #expect(ShareSigner(signingKey: nil, verificationKeys: []) == nil)
    }

    @Test("An id has one text of 22 characters, and no other text is an id")
    func identifiers() throws {
        for _ in 0..<100 {
            let id = ShareID(.v7())
            #expect(id.text.utf8.count == 22)
            #expect(ShareID(id.text) == id)
        }
        for text in [
            "", "AAECAwQFBgcICQoLDA0OD", "AAECAwQFBgcICQoLDA0ODx", "AAECAwQFBgcICQoLDA0OD=", "AAECAwQFBgcICQoLDA0ODw=",
        ] {
            #expect(ShareID(text) == nil)
        }
    }
}
