import EventLoop
import HTTPServer
import Net
import Settings

/// What follows from the address of a call that has Kakao's credential.
enum SourceVerdict: Equatable, Sendable {
    /// Nothing: the address is Kakao's, or Kakao's addresses are not known.
    case accepted
    /// The call is counted, and handled like any other.
    ///
    /// The reason says why it is not refused although the setting is `refuse`; otherwise it is `nil`.
    case recorded(Leniency?)
    /// The call is counted, and answered 403.
    case refused

    /// Why a call is not refused although its address is not in the list: the call may be Kakao's.
    enum Leniency: String, Sendable {
        case oldList = "Kakao's list of addresses could not be fetched for days"
        case partlyUnreadable = "a part of Kakao's list of addresses could not be read"
        case unknownAddress = "no proxy of http.trusted_proxies has reported the caller's address"
        case privateAddress = "the reported address is a private one, perhaps that of a balancer or a NAT"
    }
}

/// Kakao's addresses with the time at which they were requested.
///
/// A class, so that passing it on costs one reference count.
final class FetchedAddresses: Sendable {
    /// The networks that are not on the Internet, as Kakao is: a caller with such an address has reached the server through something
    /// that hides the caller's own (RFC 1918, RFC 3927, RFC 4193, RFC 4291, RFC 6598).
    private static let privateNetworks = [
        "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "::1",
        "fc00::/7", "fe80::/10",
    ]
    .compactMap { AddressBlock($0) }

    private let addresses: KakaoAddresses
    private let fetchedAt: MonotonicTime

    init(_ addresses: KakaoAddresses, fetchedAt: MonotonicTime) {
        self.addresses = addresses
        self.fetchedAt = fetchedAt
    }

    /// Judges the address of a call.
    ///
    /// - Parameters:
    ///   - isReported: Whether trusted proxies have reported the address: ``Request/isClientReported``.
    ///   - policy: Returns the setting `kakao.source_addresses`. Called only for an address that is not in the list.
    ///   - maximumAge: The age from which on the list refuses no call. Kakao adds addresses without the app doing anything.
    func verdict(
        on address: SocketAddress,
        isReported: @autoclosure () -> Bool,
        _ policy: () -> SourceAddressPolicy,
        maximumAge: Duration,
        at now: @autoclosure () -> MonotonicTime
    ) -> SourceVerdict {
        guard !addresses.contains(address) else { return .accepted }
        switch policy() {
        case .off: return .accepted
        case .record: return .recorded(nil)
        case .refuse:
            guard now() - fetchedAt < maximumAge else { return .recorded(.oldList) }
            guard addresses.unreadable == 0 else { return .recorded(.partlyUnreadable) }
            guard isReported() else { return .recorded(.unknownAddress) }
            let isPrivate = Self.privateNetworks.contains { $0.contains(address) }
            return isPrivate ? .recorded(.privateAddress) : .refused
        }
    }
}
