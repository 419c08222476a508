import HTTPServer
import HTTPTypes

/// The controls `/sandbox/unlink`, `/sandbox/channel-events`, `/sandbox/account-events` and `/sandbox/link/share`, which make
/// Kakao call the push server, and `/sandbox/callback-url`, its address (`docs/sandbox.md`).
struct CallbackControl: Sendable {
    let settings: KakaoSandboxSettings
    let sender: CallbackSender
    let unlink: UnlinkCall
    let channelEvents: ChannelEventCall
    let accountEvents: AccountEventCall
    let link: LinkCallback

    func addRoutes(to router: inout Router) {
        router.command(.post, "/sandbox/callback-url") { request in
            let input = try ControlInput(bodyOf: request, known: ["url"])
            let url = try input.string("url") ?? ""
            guard url.hasPrefix("http://") || url.hasPrefix("https://") else {
                throw ControlInput.problem("url", "must be a base URL", allowed: "http://127.0.0.1:8080")
            }
            sender.setBaseURL(url)
        }
        router.on(.post, "/sandbox/unlink") { request in
            await unlink.send(try UnlinkNotice(bodyOf: request)).response()
        }
        router.on(.post, "/sandbox/channel-events") { request in
            let outcome = await channelEvents.send(try ChannelEvent(bodyOf: request))
            return outcome.response(with: [("resource_id", outcome.id)])
        }
        router.on(.post, "/sandbox/account-events") { request in
            let outcome = try await accountEvents.send(try AccountEvent(bodyOf: request))
            return outcome.response(with: [("jti", outcome.id), ("err", outcome.error)])
        }
        router.on(.post, "/sandbox/link/share") { request in
            let outcome = await link.share(try LinkShare(bodyOf: request, settings))
            return outcome.response(with: [("resource_id", outcome.id)])
        }
    }
}
