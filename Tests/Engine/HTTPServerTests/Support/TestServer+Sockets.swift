import TestSupport
import Testing

extension TestServer {
    /// Waits until the server has read all bytes sent to it.
    func waitUntilAllIsRead() async throws {
        try await eventually("the server has read everything") {
            try ServerSocket.all(port: port).allSatisfy { $0.unread == 0 }
        }
    }

    /// Waits until at most `count` connections are open.
    func waitForConnections(atMost count: Int) async throws {
        try await eventually("at most \(count) connections are open") {
            try ServerSocket.all(port: port).count <= count
        }
    }
}
