import Glibc
import TestSupport
import Testing

@testable import Net

@Suite("Certificates and keys")
struct TLSContextTests {
    private func description(of certificate: [UInt8], _ key: [UInt8]) -> String? {
        let error = #expect(throws: TLSError.self) { try TLSContext(certificateChain: certificate, privateKey: key) }
        return error?.description
    }

    @Test("A key that does not match the certificate is rejected with that reason")
    func mismatch() throws {
        let (one, other) = (try SelfSignedCertificate(), try SelfSignedCertificate())
        let text = try #require(description(of: one.certificate, other.privateKey))
        #expect(text.hasPrefix("the private key does not match the certificate"))
        #expect(text.contains("key values mismatch"))
    }

    @Test("Invalid PEM is rejected, and the error names the file but not its content")
    func notPEM() throws {
        let good = try SelfSignedCertificate()
        let garbage = Array("topsecret".utf8)
        let certificate = try #require(description(of: garbage, good.privateKey))
        #expect(certificate.hasPrefix("the certificate is not PEM"))
        let key = try #require(description(of: good.certificate, garbage))
        #expect(key.hasPrefix("the private key is not PEM, or has a passphrase"))
        #expect(!certificate.contains("topsecret") && !key.contains("topsecret"))
        #expect(description(of: [], good.privateKey)?.hasPrefix("the certificate is not PEM") == true)
        #expect(description(of: good.privateKey, good.certificate)?.hasPrefix("the certificate is not PEM") == true)
    }

    @Test("A key with a passphrase is rejected without a prompt")
    func passphrase() async throws {
        let good = try SelfSignedCertificate()
        let encrypt = ["openssl", "pkcs8", "-topk8", "-v2", "aes-128-cbc", "-passout", "pass:x"]
        let encrypted = try await Program.run(encrypt, input: String(decoding: good.privateKey, as: UTF8.self))
        #expect(encrypted.text.contains("BEGIN ENCRYPTED PRIVATE KEY"))
        let text = try #require(description(of: good.certificate, encrypted.output))
        #expect(text.hasPrefix("the private key is not PEM, or has a passphrase"))
    }

    @Test("A chain of several certificates is accepted")
    func chain() throws {
        let (leaf, issuer) = (try SelfSignedCertificate(), try SelfSignedCertificate())
        _ = try TLSContext(certificateChain: leaf.certificate + issuer.certificate, privateKey: leaf.privateKey)
    }

    @Test("A certificate's validity and hosts are available")
    func certificate() throws {
        let made = try SelfSignedCertificate(days: 5)
        let now = time(nil)
        let context = try TLSContext(certificateChain: made.certificate, privateKey: made.privateKey)
        let validity = try #require(context.certificateValidity)
        #expect(validity.contains(now - 3600))
        #expect(!validity.contains(now - 2 * 86_400))
        #expect(validity.contains(now + 5 * 86_400 - 60))
        #expect(!validity.contains(now + 6 * 86_400))
        for host in ["localhost", "127.0.0.1", "::1"] { #expect(context.certificateIsValid(for: host)) }
        for host in ["localhos", "push.example.com", "127.0.0.2", ""] {
            #expect(!context.certificateIsValid(for: host))
        }
    }

    @Test("A certificate has what iOS requires: its names, each once, the purpose of servers, and at most 825 days")
    func requirementsOfApple() async throws {
        let made = try SelfSignedCertificate(days: 824, names: ["127.0.0.1", "192.168.0.10", "localhost", "10.0.2.2"])
        let read = ["openssl", "x509", "-noout", "-ext", "subjectAltName,extendedKeyUsage"]
        let result = try await Program.run(read, input: String(decoding: made.certificate, as: UTF8.self))
        #expect(result.text.contains("TLS Web Server Authentication"), "\(result.text)")
        let names = result.text.split(separator: "\n").last { $0.contains("DNS:") }
        #expect(
            names?.split(separator: ",").map { $0.drop { $0 == " " } } == [
                "DNS:localhost", "IP Address:127.0.0.1", "IP Address:0:0:0:0:0:0:0:1", "IP Address:10.0.2.2",
                "IP Address:192.168.0.10",
            ],
            "\(result.text)"
        )
        let context = try TLSContext(certificateChain: made.certificate, privateKey: made.privateKey)
        #expect(try #require(context.certificateValidity).count <= 825 * 86_400)
    }

    @Test("A certificate is for further names and addresses; a name that OpenSSL would read otherwise is refused")
    func names() throws {
        let made = try SelfSignedCertificate(names: ["192.168.0.10", "2001:db8::1", "kakao.test"])
        let context = try TLSContext(certificateChain: made.certificate, privateKey: made.privateKey)
        for host in ["localhost", "192.168.0.10", "2001:db8::1", "kakao.test"] {
            #expect(context.certificateIsValid(for: host), "\(host)")
        }
        #expect(!context.certificateIsValid(for: "192.168.0.11"))
        for name in ["", "a,DNS:b", "한.kr"] {
            #expect(throws: TLSError.self) { try SelfSignedCertificate(names: [name]) }
        }
    }

    @Test("An error leaves nothing in OpenSSL's queue that the next one would repeat")
    func errorQueue() throws {
        let good = try SelfSignedCertificate()
        let first = description(of: Array("x".utf8), good.privateKey)
        #expect(description(of: Array("x".utf8), good.privateKey) == first)
        _ = try TLSContext(certificateChain: good.certificate, privateKey: good.privateKey)
    }
}
