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
