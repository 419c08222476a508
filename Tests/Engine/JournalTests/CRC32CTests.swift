import Testing

@testable import Journal

struct CRC32CTests {
    @Test("The checksum matches RFC 3720, computed in one piece or in two")
    func vectors() {
        let bytes = Array("123456789".utf8)
        #expect(CRC32C.checksum(bytes) == 0xE306_9283)
        #expect(CRC32C.checksum([UInt8](repeating: 0, count: 32)) == 0x8A91_36AA)
        #expect(CRC32C.checksum(bytes.dropFirst(4), after: CRC32C.checksum(bytes.prefix(4))) == 0xE306_9283)
    }
}
