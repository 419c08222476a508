import Endpoints
import HTTPServer
import HTTPTypes
import KakaoAPI
import Schemas

// The preview of a message, without a push.
extension PushRoutes {
    private static let message = Field.required(
        "message",
        .object,
        "The message, like Kakao's `push_message`, whatever its members are."
    )
    private static let version = Field.optional(
        "version",
        Kind<PushVersion>.choice,
        "The version of the path, if the message is sent with `POST /v1/push/send` or `/v2/push/send`."
    )
    private static let kind = Field.optional(
        "kind",
        Kind<PushKind>.choice,
        "Whether the push is advertising. The preview then says whether the message would be rejected."
    )
    private static let bypass = Field.flag("bypass", "Whether the message contains its push token.")

    static let previewing = Operation(
        "previewPush",
        .post,
        "/v1/pushes/preview",
        .operatorWithAny([.send, .read]),
        "Shows a message as phones would. Nothing is stored or sent.",
        body: .fields([message, version, kind, bypass]),
        answers: [.json(.ok, PushPreview.shape, "What phones would show, and the warnings.")],
        handler: preview
    )

    @Sendable private func preview(_ call: Call) async throws -> Response {
        let message = try call[Self.message]
        let format = try call[Self.version]
        let settings = settings()
        let conditions = PushPreview.Conditions(
            settings,
            kakaoVersion: kakaoVersion,
            format: format ?? .format(of: message),
            kind: try call[Self.kind],
            bypass: try call[Self.bypass]
        )
        return .json(PushPreview.shape.json(PushPreview(message, conditions)))
    }
}
