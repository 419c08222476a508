import Glibc
import HTTPClient
import HTTPTypes
import Testing

/// The certificates that the client trusts.
@Suite struct TLSTests {
    @Test("A host with an untrusted certificate is rejected before any byte leaves")
    func unknown() async throws {
        try await TLSServer.run { server in
            try await withClient { client, _ in
                let error = await failure(
                    client,
                    HTTPClientRequest(method: .post, url: server.url("localhost"), body: [65])
                )
                #expect(error?.code == .tls)
                #expect(error?.bodyBytesLeft == false)
                #expect(error?.message.contains("certificate") == true)
            }
        }
    }

    @Test("A host whose certificate is trusted by the given file is accepted")
    func known() async throws {
        try await TLSServer.run { server in
            try await withClient(HTTPClientSettings(caCertificateFile: server.certificateFile)) { client, _ in
                for _ in 0..<2 {
                    let response = try await client.send(HTTPClientRequest(url: server.url("localhost")))
                    #expect(response.status == 200)
                }
            }
        }
    }

    @Test("A host whose certificate is for another name is rejected")
    func wrongName() async throws {
        try await TLSServer.run { server in
            try await withClient(HTTPClientSettings(caCertificateFile: server.certificateFile)) { client, _ in
                let error = await failure(
                    client,
                    HTTPClientRequest(method: .post, url: server.url("127.0.0.1"), body: [65])
                )
                #expect(error?.code == .tls)
                #expect(error?.bodyBytesLeft == false)
            }
        }
    }

    @Test("A host that supports only TLS 1.1 or older is rejected")
    func oldVersion() async throws {
        try await TLSServer.run(options: ["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]) { server in
            try await withClient(HTTPClientSettings(caCertificateFile: server.certificateFile)) { client, _ in
                let error = await failure(
                    client,
                    HTTPClientRequest(method: .post, url: server.url("localhost"), body: [65])
                )
                #expect(error?.code == .tls)
                #expect(error?.bodyBytesLeft == false)
            }
        }
    }

    @Test("A host that does not speak TLS is rejected")
    func noTLS() async throws {
        let script: @Sendable (RawConnection) -> Void = { $0.write("HTTP/1.1 200 OK\r\n\r\n") }
        try await withServer(script) { server in
            try await withClient { client, _ in
                let url = "https://localhost:\(server.port)/"
                let error = await failure(client, HTTPClientRequest(method: .post, url: url, body: [65]))
                #expect(error?.code == .tls)
                #expect(error?.bodyBytesLeft == false)
            }
        }
    }
}
