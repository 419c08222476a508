import JSON

/// Checks that a parsed, written and parsed JSON text has the same value, and is written identically again.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzJSON(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let input = UnsafeRawBufferPointer(start: start, count: count)
    guard let value = try? JSONValue(parsing: input) else { return 0 }
    precondition(String(validating: input, as: UTF8.self) != nil, "a text with invalid UTF-8 was accepted")
    let text = written(value)
    do {
        let again = try JSONValue(parsing: text)
        precondition(again == value, "the written text parses to a different value")
        precondition(written(again) == text, "the value is written differently the second time")
    } catch {
        fatalError("the written text is invalid: \(error)")
    }
    return 0
}

private func written(_ value: JSONValue) -> [UInt8] {
    var writer = JSONWriter()
    writer.value(value)
    return writer.bytes
}
