package import HTTPTypes
internal import Synchronization

extension HTTPField.Name {
    /// Names a request across systems; in every response and every log line.
    package static let requestID = unvalidated("X-Request-Id")

    /// A name that is known to be a token.
    package static func unvalidated(_ name: String) -> HTTPField.Name {
        guard let name = HTTPField.Name(name) else { preconditionFailure("\(name) is no field name") }
        return name
    }
}

/// The id of a request: the caller's, if it sent a sane one, otherwise one of our own.
///
/// Becomes a `String` when it is logged; in a response it is written as the bytes that it is.
struct RequestID: Sendable {
    private enum Source {
        case given(ArraySlice<UInt8>)
        case counted(UInt64)
    }

    /// Ids of our own: eight random digits for the process, a dash and a count, so that an id costs no system call.
    private static let prefix: [UInt8] = {
        let digits = Array(String(UInt32.random(in: .min ... .max), radix: 16).utf8)
        return [UInt8](repeating: UInt8(ascii: "0"), count: 8 - digits.count) + digits + [UInt8(ascii: "-")]
    }()
    private static let count = Atomic<UInt64>(0)

    private let source: Source

    /// The next one of our own.
    init() {
        source = .counted(Self.count.add(1, ordering: .relaxed).newValue)
    }

    /// An id that somebody else gave, or `nil` if it is not sane.
    init?(_ given: ArraySlice<UInt8>) {
        guard Self.isSane(given) else { return nil }
        source = .given(given)
    }

    /// What the request is called.
    init(of head: RequestHead) {
        self = head.requestIDRange.flatMap { RequestID(head.bytes[$0]) } ?? RequestID()
    }

    /// As it stands in the log.
    var text: String {
        var bytes: [UInt8] = []
        append(to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    func append(to output: inout [UInt8]) {
        switch source {
        case .given(let bytes):
            output.append(contentsOf: bytes)
        case .counted(let count):
            output.append(contentsOf: Self.prefix)
            var shift = (64 - count.leadingZeroBitCount - 1) / 4 * 4
            while shift >= 0 {
                let digit = UInt8(truncatingIfNeeded: count >> UInt64(shift)) & 0xF
                output.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
                shift -= 4
            }
        }
    }

    /// 1 to 128 letters, digits, `-`, `_`, `.`, `:`: nothing that could break a log line or another system's header.
    private static func isSane(_ id: ArraySlice<UInt8>) -> Bool {
        (1...128).contains(id.count)
            && id.allSatisfy { octet in
                switch octet {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."),
                    UInt8(ascii: ":"):
                    true
                default: false
                }
            }
    }
}
