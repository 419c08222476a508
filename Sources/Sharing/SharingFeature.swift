package import ServiceKit
internal import Templates

/// Sharing with KakaoTalk: templates of messages.
package struct SharingFeature: Feature {
    package static let collections: [any RouteCollection.Type] = [TemplateRoutes.self]

    private let linter: TemplateLinter

    package init(_ server: ServerContext, _ settings: SharingSettings) {
        linter = TemplateLinter(domains: settings.domains)
    }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        routes.add(TemplateRoutes(linter: linter))
    }
}
