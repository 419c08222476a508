import HTTPClient
import HTTPTypes
import Net
import TestSupport
import Testing

/// Which certificates the client accepts: the same ones as `curl`.
@Suite(.timeLimit(.minutes(2))) struct CertificateTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let isAccepted: Bool
        /// Whether curl accepts it, if the client does not agree.
        var isAcceptedByCurl: Bool?
        var host = "kakao.example"
        var leaf = TestCertificate.Content(names: "DNS:kakao.example")
        /// Whether an intermediate authority signs the certificate, and whether the server sends that authority's.
        var hasIntermediate = false
        var sendsIntermediate = false
        var isSelfSigned = false

        static let all = [
            Case(testDescription: "valid", isAccepted: true),
            Case(
                testDescription: "expired",
                isAccepted: false,
                leaf: .init(names: "DNS:kakao.example", validity: -7200 ... -3600)
            ),
            Case(
                testDescription: "not yet valid",
                isAccepted: false,
                leaf: .init(names: "DNS:kakao.example", validity: 3600...7200)
            ),
            Case(testDescription: "self-signed", isAccepted: false, isSelfSigned: true),
            Case(testDescription: "another host", isAccepted: false, host: "other.example"),
            Case(
                testDescription: "a wildcard one level deep",
                isAccepted: true,
                host: "api.kakao.example",
                leaf: .init(names: "DNS:*.kakao.example")
            ),
            Case(
                testDescription: "a wildcard two levels deep",
                isAccepted: false,
                host: "push.api.kakao.example",
                leaf: .init(names: "DNS:*.kakao.example")
            ),
            Case(
                testDescription: "a wildcard for the domain itself",
                isAccepted: false,
                leaf: .init(names: "DNS:*.kakao.example")
            ),
            Case(
                testDescription: "a wildcard within a label",
                isAccepted: false,
                host: "api.kakao.example",
                leaf: .init(names: "DNS:a*.kakao.example")
            ),
            Case(testDescription: "capitals", isAccepted: true, leaf: .init(names: "DNS:KAKAO.Example")),
            Case(
                testDescription: "the common name only",
                isAccepted: false,
                isAcceptedByCurl: true,
                leaf: .init(commonName: "kakao.example")
            ),
            Case(
                testDescription: "the common name besides other names",
                isAccepted: false,
                leaf: .init(commonName: "kakao.example", names: "DNS:other.example")
            ),
            Case(
                testDescription: "an address",
                isAccepted: true,
                host: "127.0.0.1",
                leaf: .init(names: "IP:127.0.0.1")
            ),
            Case(
                testDescription: "an address as a name",
                isAccepted: false,
                host: "127.0.0.1",
                leaf: .init(names: "DNS:127.0.0.1")
            ),
            Case(
                testDescription: "another address",
                isAccepted: false,
                host: "127.0.0.1",
                leaf: .init(names: "IP:127.0.0.2")
            ),
            Case(
                testDescription: "a complete chain",
                isAccepted: true,
                hasIntermediate: true,
                sendsIntermediate: true
            ),
            Case(testDescription: "an incomplete chain", isAccepted: false, hasIntermediate: true),
            Case(
                testDescription: "a weak key",
                isAccepted: false,
                leaf: .init(names: "DNS:kakao.example", rsaBits: 1024)
            ),
        ]
    }

    @Test(
        "The client accepts a certificate if curl does, and for one of its alternative names only",
        arguments: Case.all
    )
    func likeCurl(item: Case) async throws {
        let folder = try TemporaryFolder.make()
        let root = try TestCertificate(.init(commonName: "root", isAuthority: true))
        let intermediate = try TestCertificate(.init(commonName: "intermediate", isAuthority: true), issuer: root)
        let issuer = item.isSelfSigned ? nil : item.hasIntermediate ? intermediate : root
        let leaf = try TestCertificate(item.leaf, issuer: issuer)
        let rootFile = try writeFile(Array(root.pem.utf8), to: "\(folder)/root.pem")
        let chain = try leaf.pem + (item.sendsIntermediate ? intermediate.pem : "")
        try writeFile(Array(chain.utf8), to: "\(folder)/chain.pem")
        // The security level of a server that has such a certificate.
        let options = ["-cert_chain", "\(folder)/chain.pem", "-cipher", "ALL:@SECLEVEL=0"]
        try await TLSServer.run(leaf, options: options) { server in
            let url = server.url(item.host)
            let curl = try await Program.run([
                "curl", "--silent", "--show-error", "--output", "/dev/null", "--cacert", rootFile, "--noproxy", "*",
                "--resolve", "\(item.host):\(server.port):127.0.0.1", url,
            ])
            #expect((curl.status == 0) == (item.isAcceptedByCurl ?? item.isAccepted), "\(curl.text)")
            var settings = HTTPClientSettings(totalTimeout: .seconds(60))
            settings.trust = try TrustStore(file: rootFile)
            settings.resolver = NameResolver { _ in .success([SocketAddress("127.0.0.1")].compactMap(\.self)) }
            try await withClient(settings) { client, _ in
                let request = HTTPClientRequest(url: url)
                guard !item.isAccepted else {
                    #expect(await status(client, request) == 200)
                    return
                }
                let error = await failure(client, request)
                #expect(error?.code == .tls)
                #expect(error?.mayHaveBeenSent == false)
                #expect(error?.message.contains("certificate") == true, "\(error?.message ?? "")")
            }
            settings.trust = nil
            try await withClient(settings) { client, _ in
                #expect(await status(client, HTTPClientRequest(url: url)) == 200)
            }
        }
    }
}
