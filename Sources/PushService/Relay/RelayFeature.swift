internal import KakaoAPI
internal import ServiceKit

/// Kakao's calls on behalf of users.
struct RelayFeature: Feature {
    static let collections: [any RouteCollection.Type] = [KakaoRelayRoutes.self]

    init(_ server: ServerContext) {}

    func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        routes.add(KakaoRelayRoutes(kakao: loop.kakao(.requests)))
    }
}
