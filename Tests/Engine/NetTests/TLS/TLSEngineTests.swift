import FoundationEssentials
import TestSupport
import Testing

@testable import Net

@Suite("The TLS engine")
struct TLSEngineTests {
    private func makeEngine() throws -> TLSEngine {
        let own = try SelfSignedCertificate()
        return try TLSEngine(TLSContext(certificateChain: own.certificate, privateKey: own.privateKey))
    }

    private func read(_ engine: TLSEngine) -> TLSEngine.ReadResult {
        var buffer = [UInt8](repeating: 0, count: 1024)
        return buffer.withUnsafeMutableBytes { engine.read(into: $0) }
    }

    @Test("A new handshake waits for input and sends nothing")
    func begins() throws {
        let engine = try makeEngine()
        #expect(!engine.hasBegun)
        #expect(!engine.isEstablished)
        #expect(read(engine) == .needsInput)
        #expect(engine.hasBegun)
        var output: [UInt8] = []
        engine.drain(into: &output)
        #expect(output.isEmpty)
    }

    /// Returns whether a client that trusts a certificate accepts it for `localhost`, and the client's error.
    private func handshake(_ own: SelfSignedCertificate) throws -> (isAccepted: Bool, failure: String?) {
        let server = try TLSEngine(TLSContext(certificateChain: own.certificate, privateKey: own.privateKey))
        let file = "\(try TemporaryFolder.make())/certificate.pem"
        try Data(own.certificate).write(to: URL(filePath: file))
        let client = try TLSEngine(
            TLSContext(trusting: try TrustStore(file: file)),
            connectingTo: "localhost",
            resuming: nil
        )
        for _ in 0..<10 where !client.isEstablished {
            for (engine, peer) in [(client, server), (server, client)] {
                _ = read(engine)
                var output: [UInt8] = []
                engine.drain(into: &output)
                output.withUnsafeBytes { peer.receive($0) }
            }
        }
        return (client.isEstablished, client.failure)
    }

    @Test("A certificate is accepted for its alternative names, not for its common name")
    func names() throws {
        #expect(try handshake(SelfSignedCertificate()).isAccepted)
        let refused = try handshake(SelfSignedCertificate(hasAlternativeNames: false))
        #expect(!refused.isAccepted)
        #expect(refused.failure?.contains("ostname") == true, "\(refused.failure ?? "")")
    }

    @Test("The certificate of a server is for its alternative names, not for its common name")
    func ownNames() throws {
        for hasNames in [true, false] {
            let own = try SelfSignedCertificate(hasAlternativeNames: hasNames)
            let context = try TLSContext(certificateChain: own.certificate, privateKey: own.privateKey)
            #expect(context.certificateIsValid(for: "localhost") == hasNames)
        }
    }

    @Test("Bytes that are not TLS cause an alert and a permanent failure")
    func garbage() throws {
        let engine = try makeEngine()
        let hello: [UInt8] = [0x16, 0x03, 0x01, 0x00, 0x05, 0x01, 0xFF, 0xFF, 0xFF, 0xFF]
        hello.withUnsafeBytes { engine.receive($0) }
        #expect(read(engine) == .failed)
        var output: [UInt8] = []
        engine.drain(into: &output)
        #expect(output.first == 0x15)
        #expect(read(engine) == .failed)
        #expect([1, 2, 3].withUnsafeBytes { engine.write($0) } == false)
        engine.close()
        var rest: [UInt8] = []
        engine.drain(into: &rest)
        #expect(rest.isEmpty)
    }
}
