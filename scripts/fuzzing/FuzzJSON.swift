import JSON

/// A JSON text that is read, written and read again is the same value, and is written the same again.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzJSON(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let input = UnsafeRawBufferPointer(start: start, count: count)
    guard let value = try? JSONValue(parsing: input) else { return 0 }
    precondition(String(validating: input, as: UTF8.self) != nil, "a text that is not UTF-8 was accepted")
    let text = written(value)
    do {
        let again = try JSONValue(parsing: text)
        precondition(again == value, "what is written reads differently")
        precondition(written(again) == text, "what is read again is written differently")
    } catch {
        fatalError("what is written cannot be read: \(error)")
    }
    return 0
}

private func written(_ value: JSONValue) -> [UInt8] {
    var writer = JSONWriter()
    writer.value(value)
    return writer.bytes
}
