import Net
import TestSupport
import Testing

/// The certificates that clients trust.
@Suite struct TrustStoreTests {
    @Test("A file that is missing, or has no certificate, is an error with its path")
    func unreadable() throws {
        let error = #expect(throws: TLSError.self) { try TrustStore(file: "/nowhere/ca.pem") }
        #expect(error?.description == "/nowhere/ca.pem: No such file or directory")
        #expect(throws: TLSError.self) { try TrustStore(file: "/etc/hostname") }
    }
}
