import HTTPServer
import Logging

/// Whom the requests with a valid token count against.
enum Payer: Hashable, Sendable {
    case user(Int64)
    /// A user without an id, as long as the token is valid.
    case token(TokenDigest)
}

/// The rate limits of requests with users' tokens, by user and, with unverified tokens, by address. Shared by all event loops of a server.
final class UserRequestLimits: Sendable {
    private let users: RequestLimit<Payer>
    private let addresses: AddressLimit

    /// - Parameters:
    ///   - perUser: Requests a minute for each user; `nil` for no limit.
    ///   - perAddress: Requests a minute with unverified tokens for each address; `nil` for no limit.
    init(perUser: Int?, perAddress: Int?, logger: Logger) {
        users = RequestLimit(perMinute: perUser)
        addresses = AddressLimit(perMinute: perAddress, logger: logger)
    }

    /// Sets other limits.
    func apply(perUser: Int?, perAddress: Int?) {
        users.apply(perMinute: perUser)
        addresses.apply(perMinute: perAddress)
    }

    /// Counts a request with an unverified token against its source address.
    ///
    /// - Throws: ``Problem`` 429.
    func chargeAddress(of request: Request) throws {
        try addresses.charge(request)
    }

    /// Counts a request against its user.
    ///
    /// - Throws: ``Problem`` 429.
    func charge(_ payer: Payer) throws {
        guard let wait = users.take(from: payer) else { return }
        throw Problem.tooManyRequests("Too many requests from this user.", wait: wait)
    }
}
