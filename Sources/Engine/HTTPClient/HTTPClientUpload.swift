/// The rest of a request's body, which is sent while it is read, so that a large file is never in memory as a whole.
package final class HTTPClientUpload: Sendable {
    /// The exact number of bytes.
    package let length: Int
    /// Returns the next bytes, in pieces of any size from 1 byte. Called again when the previous piece has left, until
    /// ``length`` bytes have been returned. It should end when its task is cancelled, which happens if the request ends
    /// early.
    package let next: @Sendable () async throws -> [UInt8]

    package init(length: Int, next: @escaping @Sendable () async throws -> [UInt8]) {
        self.length = length
        self.next = next
    }
}
