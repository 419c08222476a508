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

/// Gives each request an id: the caller's, if it sent a sane one, otherwise one of our own.
package struct RequestIdentifier: Middleware {
    /// Ids of our own: a random prefix for the process and a count, so that an id costs no system call.
    private static let prefix = UInt32.random(in: .min ... .max)
    private static let count = Atomic<UInt64>(0)

    package init() {}

    package func receive(_ request: inout Request) -> Response? {
        if let given = request[.requestID], Self.isSane(given) {
            request.id = given
        } else {
            request.id = Self.next()
        }
        return nil
    }

    package func send(_ response: inout Response, to request: Request) {
        response.headerFields.append(HTTPField(name: .requestID, value: request.id))
    }

    package func refuse(_ refusal: inout Refusal) {
        refusal.id = Self.next()
        refusal.response.headerFields.append(HTTPField(name: .requestID, value: refusal.id))
    }

    private static func next() -> String {
        let count = Self.count.add(1, ordering: .relaxed).newValue
        let prefix = String(Self.prefix, radix: 16)
        return String(repeating: "0", count: 8 - prefix.utf8.count) + prefix + "-" + String(count, radix: 16)
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
