import TestSupport

/// A response that `curl` received.
package struct CurlAnswer {
    package let status: String
    package let head: String
    package let body: String
    /// `curl`'s exit code: 18 if the response was cut off.
    package let exitCode: Int32
}

/// Runs `curl` with the operator key and returns the response's status, head and body.
package func curl(_ arguments: [String]) async throws -> CurlAnswer {
    let common = ["-sS", "-i", "-w", "\n%{http_code}", "-H", "Authorization: Bearer \(Keys.operator)"]
    let result = try await Program.run(["curl"] + common + arguments, environment: [:])
    let output = result.text
    let end = output.utf8.lastIndex(of: UInt8(ascii: "\n")) ?? output.startIndex
    let head = output.firstRange(of: "\r\n\r\n") ?? end..<end
    return CurlAnswer(
        status: String(output[end...].dropFirst()),
        head: String(output[..<head.lowerBound]),
        body: String(output[head.upperBound..<max(end, head.upperBound)]),
        exitCode: result.status
    )
}
