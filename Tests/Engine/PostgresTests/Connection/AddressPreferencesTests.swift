import Testing

@testable import Postgres

@Suite struct AddressPreferencesTests {
    private let a = PostgresAddress(host: "a")
    private let b = PostgresAddress(host: "b")
    private let c = PostgresAddress(host: "c")
    private var all: [PostgresAddress] { [a, b, c] }

    @Test("A round begins where the database was reached last")
    func current() {
        var preferences = AddressPreferences()
        #expect(preferences.round(of: all, at: 0) == [a, b, c])
        preferences.reached(b)
        #expect(preferences.round(of: all, at: 0) == [b, c, a])
        // A rejected attempt changes nothing: a standby is promoted, or a server is restarted.
        preferences.rejected(b)
        #expect(preferences.round(of: all, at: 0) == [b, c, a])
        // The name of the host has other addresses now.
        #expect(preferences.round(of: [a, c], at: 0) == [a, c])
    }

    @Test("A round begins after a server that accepts no changes any more")
    func readOnly() {
        var preferences = AddressPreferences()
        preferences.reached(b)
        preferences.isReadOnly(b)
        #expect(preferences.round(of: all, at: 0) == [c, a, b])
        preferences.reached(c)
        // A slower connection reports the old one.
        preferences.isReadOnly(b)
        #expect(preferences.round(of: all, at: 0) == [c, a, b])
    }

    @Test("An address that does not respond is left out, and one round in 15 s tries it, last")
    func silent() {
        var preferences = AddressPreferences()
        preferences.isSilent(a, at: 0)
        #expect(preferences.round(of: all, at: 14_999) == [b, c])
        #expect(preferences.round(of: all, at: 15_000) == [b, c, a])
        #expect(preferences.round(of: all, at: 15_001) == [b, c])
        preferences.rejected(a)
        #expect(preferences.round(of: all, at: 15_002) == [a, b, c])
    }

    @Test("A server that does not respond to a statement is tried at once, by one round and last")
    func late() {
        var preferences = AddressPreferences()
        preferences.reached(a)
        preferences.isLate(a, at: 0)
        #expect(preferences.round(of: all, at: 0) == [b, c, a])
        // A second connection to it notices the same, while the first tries it.
        preferences.isLate(a, at: 1)
        #expect(preferences.round(of: all, at: 1) == [b, c])
        // Only its commits were late.
        preferences.reached(a)
        #expect(preferences.round(of: all, at: 2) == [a, b, c])
    }

    @Test("A server that does not respond is given up once the database was reached elsewhere")
    func abandoned() {
        var preferences = AddressPreferences()
        preferences.reached(a)
        preferences.isLate(a, at: 0)
        #expect(!preferences.isAbandoned(a))
        preferences.reached(b)
        #expect(preferences.isAbandoned(a))
        // Two poolers may lead to the same database.
        #expect(!preferences.isAbandoned(c))
        preferences.reached(a)
        #expect(!preferences.isAbandoned(a) && !preferences.isAbandoned(b))
    }

    @Test("If no address responds, all are tried, the one that failed first before the others")
    func allSilent() {
        var preferences = AddressPreferences()
        preferences.isSilent(b, at: 1)
        preferences.isSilent(a, at: 2)
        preferences.isSilent(c, at: 3)
        #expect(preferences.round(of: all, at: 4) == [b, a, c])
        preferences.reached(a)
        #expect(preferences.round(of: all, at: 5) == [a])
    }
}
