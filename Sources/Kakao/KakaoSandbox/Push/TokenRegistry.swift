/// The push tokens of each user, and their expiry.
struct TokenRegistry {
    /// A registered push token.
    struct Token: Sendable {
        let key: DeviceKey
        var pushToken: String
        /// The time of the first registration, in Unix milliseconds.
        let createdAt: Int64
        /// The time of the last registration, in Unix milliseconds. The token's lifetime begins here.
        var updatedAt: Int64
    }

    private static let millisecondsPerDay: Int64 = 86_400_000
    /// The maximum number of devices of a user, far more than a person owns. It is bounded because a lookup compares
    /// all of them.
    private static let maximumDevicesPerUser = 1000

    private let maximumTokens: Int
    /// The lifetime of a token in milliseconds; `nil` if tokens never expire.
    private let lifetime: Int64?
    private var tokens: [Int64: [Token]] = [:]
    private(set) var count = 0

    init(maximumTokens: Int, lifetimeDays: Int) {
        self.maximumTokens = maximumTokens
        lifetime = lifetimeDays < 0 ? nil : Int64(min(lifetimeDays, 36_500)) * Self.millisecondsPerDay
    }

    /// Adds or updates the token of a device. Returns `false` without storing it if a limit is reached.
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

    /// Returns the tokens of a user that have not expired, in the order of their first registration.
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
