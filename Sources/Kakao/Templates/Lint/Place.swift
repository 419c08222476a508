/// A place in a template. Its path is a text, which is only made for a finding.
indirect enum Place {
    case root
    case member(of: Place, String)
    case element(of: Place, Int)

    subscript(name: String) -> Place { .member(of: self, name) }

    subscript(index: Int) -> Place { .element(of: self, index) }

    /// The place as a JSON path, with the beginning of each name (RFC 9535 §2.3.1).
    var path: String {
        switch self {
        case .root: "$"
        case .member(let parent, let name) where Self.isPlain(name): "\(parent.path).\(Inspection.shortened(name))"
        case .member(let parent, let name): "\(parent.path)[\(Inspection.quoted(name))]"
        case .element(let parent, let index): "\(parent.path)[\(index)]"
        }
    }

    private static func isPlain(_ name: String) -> Bool {
        !name.isEmpty
            && name.utf8.allSatisfy { character in
                switch character {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }
}
