import HTTPTypes

@testable import Net

/// Checks that a parsed response does not depend on how its bytes are split, ends where it should, and stays within its
/// limits.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzResponse(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    // The first byte selects the request method and the size of the pieces.
    guard let start, count > 1 else { return 0 }
    let (choice, input) = (start[0], Array(UnsafeBufferPointer(start: start + 1, count: count - 1)))
    var whole = ResponseParser(isHead: choice & 1 == 1, maximumBodyBytes: 100)
    let taken = input.withUnsafeBytes { whole.receive($0) }
    precondition(taken == input.count || whole.state == .complete || isFailed(whole), "unread bytes in a response")
    let size = Int(choice >> 1) % 7 + 1
    var cut = ResponseParser(isHead: choice & 1 == 1, maximumBodyBytes: 100)
    var position = 0
    while position < input.count {
        let part = input[position..<min(position + size, input.count)]
        let taken = part.withUnsafeBytes { cut.receive($0) }
        position += taken
        if taken < part.count { break }
    }
    precondition(isFailed(whole) == isFailed(cut), "splitting changes whether the response is rejected")
    if !isFailed(whole) {
        precondition(position == taken, "splitting changes where the response ends")
        precondition(whole.state == cut.state && whole.head?.status == cut.head?.status)
        precondition(whole.head?.fields.all == cut.head?.fields.all, "the fields differ")
        precondition(whole.head?.keepAliveTimeout == cut.head?.keepAliveTimeout)
        precondition(whole.body == cut.body && whole.keepsConnection == cut.keepsConnection, "the body differs")
    }
    precondition(whole.body.count <= 100 && cut.body.count <= 100, "the body is longer than its limit")
    if whole.receiveEnd() {
        precondition(whole.head.map { (200...999).contains($0.status) } == true, "a response without a final status")
    }
    return 0
}

private func isFailed(_ parser: ResponseParser) -> Bool {
    if case .failed = parser.state { true } else { false }
}
