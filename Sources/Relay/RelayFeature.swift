internal import KakaoAPI
package import ServiceKit

/// Kakao's calls on behalf of users.
package struct RelayFeature: Feature {
    package static let collections: [any RouteCollection.Type] = [KakaoRelayRoutes.self]

    package init(_ server: ServerContext, _ settings: NoSettings) {}

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        routes.add(KakaoRelayRoutes(kakao: loop.kakao(.requests)))
    }
}
