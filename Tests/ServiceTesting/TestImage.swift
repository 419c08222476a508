package import Server

@testable import Settings

/// Files whose beginning is that of an image.
package enum TestImage {
    /// Returns the beginning of a PNG of 3 × 2 pixels, followed by other bytes.
    ///
    /// - Parameters:
    ///   - number: Images with different numbers are different.
    ///   - size: The size of the file in bytes.
    package static func png(_ number: UInt8 = 0, size: Int = 64) -> [UInt8] {
        let head: [UInt8] = [
            0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52, 0, 0, 0, 3, 0, 0, 0, 2,
        ]
        return head + [UInt8](repeating: number, count: size - head.count)
    }
}

/// Runs `body` with a server that makes calls with an app key.
package func withAppKeyCalls(
    _ adjust: (inout Settings) -> Void = { _ in },
    _ body: (TestService) async throws -> Void
) async throws {
    try await withService(
        { settings in
            settings.kakao.nativeAppKey = "sandbox-native-app-key"
            settings.kakao.makesAppKeyCalls = true
            settings.kakao.kaHeader = "sdk/2.27.3 os/ios-17.0"
            adjust(&settings)
        },
        body
    )
}
