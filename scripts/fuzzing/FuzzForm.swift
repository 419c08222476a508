import Net

/// Checks that the form parser agrees with a simple second parser, and that a written form parses to the same pairs.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzForm(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    guard let start else { return 0 }
    let input = Array(UnsafeBufferPointer(start: start, count: count))
    _ = try? FormURLEncoded.percentDecoded(input[...], plusIsSpace: false)
    guard let pairs = try? FormURLEncoded.parse(input[...]) else { return 0 }
    let parts = input.split(separator: UInt8(ascii: "&"))
    precondition(parts.count == pairs.count, "the number of pairs differs")
    for (part, pair) in zip(parts, pairs) {
        let sides = part.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
        precondition(Array(pair.name.utf8) == decoded(sides[0]), "a name differs")
        precondition(Array(pair.value.utf8) == (sides.count == 2 ? decoded(sides[1]) : []), "a value differs")
    }
    let written = pairs.map { encoded($0.name) + "=" + encoded($0.value) }.joined(separator: "&")
    guard let again = try? FormURLEncoded.parse(Array(written.utf8)[...]) else {
        fatalError("the written form is invalid")
    }
    // Byte by byte, since Swift's == equates canonically equivalent strings.
    let isSame = again.elementsEqual(pairs) {
        $0.name.utf8.elementsEqual($1.name.utf8) && $0.value.utf8.elementsEqual($1.value.utf8)
    }
    precondition(isSame, "the written form parses to different pairs")
    return 0
}

private func decoded(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
    var decoded: [UInt8] = []
    var rest = bytes
    while let octet = rest.popFirst() {
        if octet == UInt8(ascii: "%") {
            let digits = String(decoding: rest.prefix(2), as: UTF8.self)
            guard digits.utf8.count == 2, digits.allSatisfy(\.isHexDigit), let value = UInt8(digits, radix: 16) else {
                fatalError("a % without two digits was accepted")
            }
            decoded.append(value)
            rest = rest.dropFirst(2)
        } else {
            decoded.append(octet == UInt8(ascii: "+") ? 0x20 : octet)
        }
    }
    return decoded
}

private func encoded(_ text: String) -> String {
    text.utf8.map { "%" + ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}
