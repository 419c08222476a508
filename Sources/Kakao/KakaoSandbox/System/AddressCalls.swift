import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import Locking

/// The list of Kakao's addresses, and the controls `/sandbox/addresses`, which show and change it (`docs/sandbox.md`).
struct AddressCalls: Sendable {
    /// The names of the members of the body.
    static let members: Set<String> = ["inbound", "outbound", "updated_date"]

    /// The list of a new sandbox. Its callbacks come from this machine, or in a container from a private network.
    private static let initial = RetrieveAddresses.Answer(
        inbound: [
            RetrieveAddresses.entry(
                "callback",
                ["127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fd00::/8"]
            )
        ],
        outbound: [RetrieveAddresses.entry("https://kapi.kakao.com", ["127.0.0.0/8", "::1/128"])],
        updatedDate: "2026-01-26"
    )

    private let list = Locked(initial)

    func add(to server: inout KakaoCallServer) {
        server.on(RetrieveAddresses.self) { call, _ in
            let list = list.withLock { $0 }
            return RetrieveAddresses.Answer(
                inbound: call.direction == .outbound ? nil : list.inbound,
                outbound: call.direction == .inbound ? nil : list.outbound,
                updatedDate: list.updatedDate
            )
        }
    }

    func addRoutes(to router: inout Router) {
        let path = "/sandbox/addresses"
        router.control(.get, path) { _ in response }
        router.control(.post, path) { request in
            try set(ControlInput(bodyOf: request, known: Self.members))
            return response
        }
        router.command(.delete, path) { _ in list.withLock { $0 = Self.initial } }
    }

    /// Changes the list. Members that are absent from the input stay as they are; entries have any form, because Kakao's
    /// documents differ.
    ///
    /// - Throws: ``Problem`` that names the field, with nothing changed.
    func set(_ input: ControlInput) throws(Problem) {
        let inbound = try input.member("inbound", "an array") { $0.array }
        let outbound = try input.member("outbound", "an array") { $0.array }
        let updatedDate = try input.string("updated_date")
        list.withLock { list in
            list = RetrieveAddresses.Answer(
                inbound: inbound ?? list.inbound,
                outbound: outbound ?? list.outbound,
                updatedDate: updatedDate ?? list.updatedDate
            )
        }
    }

    private var response: Response {
        let list = list.withLock { $0 }
        return .json { json in
            json.member("inbound", JSONValue.array(list.inbound ?? []))
            json.member("outbound", JSONValue.array(list.outbound ?? []))
            json.member("updated_date", list.updatedDate)
        }
    }
}
