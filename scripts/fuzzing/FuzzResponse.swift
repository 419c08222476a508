@testable import HTTPClient

/// However the bytes of a response are cut, they come to the same; nothing is taken behind its end, and no bound is crossed.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzResponse(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    // The first byte says what was asked, and where to cut.
    guard let start, count > 1 else { return 0 }
    let (choice, input) = (start[0], Array(UnsafeBufferPointer(start: start + 1, count: count - 1)))
    var whole = ResponseParser(isHead: choice & 1 == 1, maximumBodyBytes: 100)
    let taken = input.withUnsafeBytes { whole.receive($0) }
    precondition(taken == input.count || whole.state == .complete || isFailed(whole), "something was left")
    let size = Int(choice >> 1) % 7 + 1
    var cut = ResponseParser(isHead: choice & 1 == 1, maximumBodyBytes: 100)
    var position = 0
    while position < input.count {
        let part = input[position..<min(position + size, input.count)]
        let taken = part.withUnsafeBytes { cut.receive($0) }
        position += taken
        if taken < part.count { break }
    }
    precondition(isFailed(whole) == isFailed(cut), "a cut decides over what is refused")
    if !isFailed(whole) {
        precondition(position == taken, "a cut decides over where it ends")
        precondition(whole.state == cut.state && whole.status == cut.status && whole.head == cut.head)
        precondition(whole.body == cut.body && whole.keepsConnection == cut.keepsConnection, "a cut changes what is read")
    }
    precondition(whole.body.count <= 100 && cut.body.count <= 100, "the body is longer than is allowed")
    if whole.receiveEnd() { precondition((200...999).contains(whole.status), "a response without a final status") }
    return 0
}

private func isFailed(_ parser: ResponseParser) -> Bool {
    if case .failed = parser.state { true } else { false }
}
