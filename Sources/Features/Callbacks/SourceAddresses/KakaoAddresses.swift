import HTTPServer
import JSON
package import KakaoAPI
package import Net

/// The addresses from which Kakao calls, as far as Kakao's list of them can be read.
package struct KakaoAddresses: Sendable {
    /// The most networks: far more than Kakao has, so that a comparison with all of them takes microseconds.
    private static let maximumCount = 1000

    private let blocks: [AddressBlock]
    /// The number of texts and entries of the list that name no address. A list whose entries name services, none of which is
    /// `callback`, counts as one more.
    package let unreadable: Int

    /// Reads the list of inbound addresses.
    ///
    /// Kakao's documents name the members of an entry differently, so each text that is an address or a network counts, wherever it
    /// stands. These may be more than the addresses of callbacks: those of scrapers, those to come and those to go. An address too
    /// many admits a call that has Kakao's credential anyway; one too few refuses a call of Kakao's.
    ///
    /// Returns `nil` for a list without a readable address, or with more than 1,000.
    package init?(_ list: RetrieveAddresses.Answer) {
        var reader = Reader()
        for entry in list.inbound ?? [] { reader.read(entry) }
        guard (1...Self.maximumCount).contains(reader.blocks.count) else { return nil }
        blocks = Array(reader.blocks)
        unreadable = reader.unreadable + (reader.namesServices && !reader.namesCallback ? 1 : 0)
    }

    /// The number of addresses and networks.
    package var count: Int { blocks.count }

    package func contains(_ address: SocketAddress) -> Bool { blocks.contains { $0.contains(address) } }

    /// The addresses of the entries that were read.
    private struct Reader {
        var blocks: Set<AddressBlock> = []
        var unreadable = 0
        /// Whether a member of an entry has another text than an address, and whether one contains `callback`.
        var namesServices = false
        var namesCallback = false

        mutating func read(_ entry: JSONValue) {
            let before = unreadable
            if !collect(entry, isElement: true), unreadable == before { unreadable += 1 }
        }

        /// Collects the addresses in a value. Returns whether there is one.
        ///
        /// - Parameter isElement: Whether the value is an element of an array, whose texts are addresses. A member may have another
        ///   text, such as the name of a service.
        private mutating func collect(_ value: JSONValue, isElement: Bool) -> Bool {
            switch value {
            case .string(let text):
                if let block = AddressBlock(text[...].trimmingSpaces()) {
                    blocks.insert(block)
                    return true
                }
                if isElement {
                    unreadable += 1
                } else {
                    name(text)
                }
                return false
            case .array(let elements):
                return elements.reduce(false) { collect($1, isElement: true) || $0 }
            case .object(let object):
                return object.members.reduce(false) { hasAddress, member in
                    // A service may also be the name of a member.
                    if member.name.lowercased().contains("callback") { namesCallback = true }
                    return collect(member.value, isElement: false) || hasAddress
                }
            case .null, .bool, .number:
                return false
            }
        }

        private mutating func name(_ service: String) {
            namesServices = true
            if service.lowercased().contains("callback") { namesCallback = true }
        }
    }
}
