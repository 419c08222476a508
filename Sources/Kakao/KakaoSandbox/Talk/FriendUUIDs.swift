import Crypto

/// The ids by which an app names people in messages: `uuid` of a friend.
///
/// As at Kakao, they are opaque and valid in one app only. The sandbox derives them from the user id and stores none.
struct FriendUUIDs: Sendable {
    /// 30 characters in Base64.
    private static let octetCount = 22

    private let key: UInt64

    init(appID: Int) {
        var generator = SplitMix64(seed: UInt64(bitPattern: Int64(appID)))
        key = generator.next()
    }

    /// Returns the uuid of a user.
    func uuid(of userID: Int64) -> String {
        Base64URL.encode(octets(of: userID))
    }

    /// Returns the user of a uuid; `nil` for a text that is no uuid of this app.
    func userID(of uuid: String) -> Int64? {
        guard let octets = Base64URL.decode(uuid.utf8), octets.count == Self.octetCount else { return nil }
        let word = octets.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        let userID = Int64(bitPattern: word ^ key)
        return userID > 0 && self.octets(of: userID) == octets ? userID : nil
    }

    /// The user id, scrambled with the app's key, and a check of both.
    private func octets(of userID: Int64) -> [UInt8] {
        let word = UInt64(bitPattern: userID) ^ key
        var check = SplitMix64(seed: word)
        let words = [word, check.next(), check.next()]
        return (0..<Self.octetCount).map { index in
            UInt8(truncatingIfNeeded: words[index / 8] >> UInt64(56 - index % 8 * 8))
        }
    }
}
