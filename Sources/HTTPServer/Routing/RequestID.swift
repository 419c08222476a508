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
enum RequestID {
    /// Ids of our own: eight random digits for the process, a dash and a count, so that an id costs no system call.
    private static let prefix: [UInt8] = {
        let digits = Array(String(UInt32.random(in: .min ... .max), radix: 16).utf8)
        return [UInt8](repeating: UInt8(ascii: "0"), count: 8 - digits.count) + digits + [UInt8(ascii: "-")]
    }()
    private static let count = Atomic<UInt64>(0)

    static func of(_ head: RequestHead) -> String {
        guard let given = head[.requestID], isSane(given) else { return next() }
        return given
    }

    static func next() -> String {
        let count = count.add(1, ordering: .relaxed).newValue
        return String(unsafeUninitializedCapacity: prefix.count + 16) { buffer in
            var end = buffer.update(fromContentsOf: prefix)
            var shift = (64 - count.leadingZeroBitCount - 1) / 4 * 4
            while shift >= 0 {
                let digit = UInt8(truncatingIfNeeded: count >> UInt64(shift)) & 0xF
                buffer[end] = digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10
                end += 1
                shift -= 4
            }
            return end
        }
    }

    /// 1 to 128 letters, digits, `-`, `_`, `.`, `:`: nothing that could break a log line or another system's header.
    private static func isSane(_ id: String) -> Bool {
        (1...128).contains(id.utf8.count)
            && id.utf8.allSatisfy { octet in
                switch octet {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."),
                    UInt8(ascii: ":"):
                    true
                default: false
                }
            }
    }
}
