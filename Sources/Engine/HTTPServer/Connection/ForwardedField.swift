package import HTTPTypes
import Net

/// The header field in which trusted proxies report the client's address. Each proxy appends an element.
package enum ForwardedField: String, Sendable, CaseIterable {
    /// The addresses alone: `203.0.113.7, 10.0.0.2`.
    case xForwardedFor = "x-forwarded-for"
    /// RFC 7239: `for=203.0.113.7;proto=https, for="[2001:db8::7]:4711"`.
    case forwarded

    package var name: HTTPField.Name {
        switch self {
        case .xForwardedFor: .forwardedFor
        case .forwarded: .forwarded
        }
    }

    /// Returns the node that an element names; `nil` if it names none, or several.
    func node(in element: Substring.UTF8View) -> Substring.UTF8View? {
        guard self == .forwarded else { return element }
        var node: Substring.UTF8View?
        for parameter in BackwardList(element, separator: UInt8(ascii: ";")) {
            guard let equals = parameter.firstIndex(of: UInt8(ascii: "=")),
                Substring(parameter[..<equals]).trimmingSpaces().lowercased() == "for"
            else { continue }
            guard node == nil else { return nil }
            node = Substring(parameter[parameter.index(after: equals)...]).trimmingSpaces().utf8
        }
        return node
    }
}

extension HTTPField.Name {
    /// The addresses that a request passed through, as seen by each proxy. The last proxy appended the last address.
    package static let forwardedFor = unvalidated("X-Forwarded-For")
    /// The same, with other parameters of each hop (RFC 7239).
    package static let forwarded = unvalidated("Forwarded")
}

/// The elements of a list from the last to the first, trimmed and without the empty ones (RFC 9110 §5.6.1).
///
/// Trusted proxies wrote the end of the list, a client possibly its beginning. Read from the end, nothing that the client
/// wrote, such as a quote that is never closed, changes where the elements of the proxies begin. Octets are compared, not
/// characters: a client could end its part with one that combines with the comma after it.
struct BackwardList: Sequence, IteratorProtocol {
    private var rest: Substring.UTF8View?
    private let separator: UInt8

    init(_ list: Substring.UTF8View, separator: UInt8 = UInt8(ascii: ",")) {
        rest = list
        self.separator = separator
    }

    mutating func next() -> Substring.UTF8View? {
        while let list = rest {
            var start = list.endIndex
            var isQuoted = false
            rest = nil
            while start > list.startIndex {
                let before = list.index(before: start)
                if list[before] == UInt8(ascii: "\"") { isQuoted.toggle() }
                if list[before] == separator, !isQuoted {
                    rest = list[..<before]
                    break
                }
                start = before
            }
            let element = Substring(list[start...]).trimmingSpaces().utf8
            if !element.isEmpty { return element }
        }
        return nil
    }
}

extension SocketAddress {
    /// Parses the address of a node (RFC 7239 §6), as proxies write it into ``ForwardedField``. Returns `nil` for `unknown`,
    /// for a name that hides the address (`_gateway`), and for anything else.
    ///
    /// - Parameter node: An address, possibly quoted, with a port or in brackets: `203.0.113.7:51022`, `2001:db8::7`,
    ///   `"[2001:db8::7]:51022"`, `fe80::7%eth0`. The port and the zone are dropped.
    init?(node: Substring.UTF8View) {
        var node = node
        if node.count >= 2, node.first == UInt8(ascii: "\""), node.last == UInt8(ascii: "\"") {
            node = node.dropFirst().dropLast()
        }
        var host = node
        if node.first == UInt8(ascii: "[") {
            guard let end = node.firstIndex(of: UInt8(ascii: "]")), Self.isPort(node[end...].dropFirst()) else {
                return nil
            }
            host = node[..<end].dropFirst()
            guard host.contains(UInt8(ascii: ":")) else { return nil }
        } else if let colon = node.firstIndex(of: UInt8(ascii: ":")), colon == node.lastIndex(of: UInt8(ascii: ":")) {
            guard Self.isPort(node[colon...]) else { return nil }
            host = node[..<colon]
        }
        if host.contains(UInt8(ascii: ":")), let zone = host.firstIndex(of: UInt8(ascii: "%")) { host = host[..<zone] }
        self.init(Substring(host))
    }

    /// Returns whether an address may be followed by this: nothing, a port, or a name in its place (RFC 7239 §6.3).
    private static func isPort(_ text: Substring.UTF8View) -> Bool {
        guard let first = text.first else { return true }
        let port = text.dropFirst()
        guard first == UInt8(ascii: ":"), let initial = port.first else { return false }
        let isNumber = port.count <= 5 && port.allSatisfy { (0x30...0x39).contains($0) }
        return isNumber || initial == UInt8(ascii: "_")
    }
}
