package import HTTPTypes
import Net
import Synchronization

extension HTTPField.Name {
    /// The id of a request across systems. It is in every response and every log line.
    package static let requestID = unvalidated("X-Request-Id")

    /// Returns the field name for `name`, which must be a valid token.
    package static func unvalidated(_ name: String) -> HTTPField.Name {
        guard let name = HTTPField.Name(name) else { preconditionFailure("invalid header field name: \(name)") }
        return name
    }
}

/// The id of a request: the caller's, if it sent a valid one, otherwise a generated one.
///
/// It becomes a `String` only when it is logged; a response contains its bytes directly.
struct RequestID: Sendable {
    private enum Source {
        case given(ArraySlice<UInt8>)
        case counted(UInt64)
    }

    /// The prefix of generated ids: eight random digits per process and a dash. A counter follows, so that an id costs
    /// no system call.
    private static let prefix: [UInt8] = {
        let digits = Array(String(UInt32.random(in: .min ... .max), radix: 16).utf8)
        return [UInt8](repeating: UInt8(ascii: "0"), count: 8 - digits.count) + digits + [UInt8(ascii: "-")]
    }()
    private static let count = Atomic<UInt64>(0)

    private let source: Source

    /// Generates an id.
    init() {
        source = .counted(Self.count.add(1, ordering: .relaxed).newValue)
    }

    /// Creates an id from received bytes. Returns `nil` if they are not a valid id.
    init?(_ given: ArraySlice<UInt8>) {
        guard Self.isSane(given) else { return nil }
        source = .given(given)
    }

    /// Returns the valid id in the head, or generates one.
    init(of head: RequestHead) {
        self = head.requestIDRange.flatMap { RequestID(head.bytes[$0]) } ?? RequestID()
    }

    /// The id as logged.
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

    /// Returns whether the id has 1 to 128 letters, digits, `-`, `_`, `.`, `:`. Nothing else is accepted, because it
    /// could break a log line or another system's header.
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
