import Testing

@testable import Pushes

@Suite struct UserIDBytesTests {
    @Test("Ids are encoded in as many bytes as the largest needs, and decoded to the same values")
    func roundTrip() {
        for width in 1...8 {
            let largest = width == 8 ? Int64.max : 1 << (8 * Int64(width)) - 1
            let ids = [1, largest / 2, largest - 1, largest]
            let written = UserIDBytes(ids)
            #expect(written.width == width)
            #expect(written.bytes.count == 4 * width)
            let read = UserIDBytes(bytes: written.bytes, width: written.width)
            #expect(read.count == 4)
            #expect(read.ids(0..<4) == ids)
            #expect(read.ids(1..<3) == Array(ids[1..<3]))
            #expect(read.ids(3..<100) == [largest])
        }
        #expect(UserIDBytes([256, 1]).width == 2)
        #expect(UserIDBytes([]) == UserIDBytes(bytes: [], width: 1))
    }
}
