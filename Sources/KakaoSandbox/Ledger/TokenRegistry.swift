/// The tokens of each user, until they expire.
struct TokenRegistry {
    /// A token as it was registered.
    struct Token: Sendable {
        let key: DeviceKey
        var pushToken: String
        /// Unix milliseconds.
        let createdAt: Int64
        /// Unix milliseconds of the last registration, from which the expiry is counted.
        var updatedAt: Int64
    }

    private static let millisecondsPerDay: Int64 = 86_400_000
    /// Beyond what anybody owns: a lookup compares all of a user's devices.
    private static let maximumDevicesPerUser = 1000

    private let maximumTokens: Int
    /// `nil` when tokens never expire.
    private let lifetime: Int64?
    private var tokens: [Int64: [Token]] = [:]
    private(set) var count = 0

    init(maximumTokens: Int, lifetimeDays: Int) {
        self.maximumTokens = maximumTokens
        lifetime = lifetimeDays < 0 ? nil : Int64(min(lifetimeDays, 36_500)) * Self.millisecondsPerDay
    }

    /// Adds the token of a device, or updates it. Returns false, with nothing changed, if there is no room.
    mutating func register(_ key: DeviceKey, userID: Int64, pushToken: String, now: Int64) -> Bool {
        removeExpired(of: userID, now: now)
        if let index = tokens[userID]?.firstIndex(where: { $0.key == key }) {
            tokens[userID]?[index].pushToken = pushToken
            tokens[userID]?[index].updatedAt = now
            return true
        }
        guard count < maximumTokens, (tokens[userID]?.count ?? 0) < Self.maximumDevicesPerUser else { return false }
        tokens[userID, default: []].append(Token(key: key, pushToken: pushToken, createdAt: now, updatedAt: now))
        count += 1
        return true
    }

    mutating func deregister(_ key: DeviceKey, userID: Int64) {
        remove(of: userID) { $0.key == key }
    }

    /// What has not expired, in the order of the first registration.
    func tokens(of userID: Int64, now: Int64) -> [Token] {
        guard let all = tokens[userID] else { return [] }
        guard let lifetime, all.contains(where: { $0.updatedAt + lifetime <= now }) else { return all }
        return all.filter { $0.updatedAt + lifetime > now }
    }

    private mutating func removeExpired(of userID: Int64, now: Int64) {
        guard let lifetime else { return }
        remove(of: userID) { $0.updatedAt + lifetime <= now }
    }

    private mutating func remove(of userID: Int64, where matches: (Token) -> Bool) {
        guard let all = tokens[userID], all.contains(where: matches) else { return }
        let rest = all.filter { !matches($0) }
        tokens[userID] = rest.isEmpty ? nil : rest
        count -= all.count - rest.count
    }
}
