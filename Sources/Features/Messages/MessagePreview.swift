import Schemas
import Sharing
import Templates

/// The result of a dry run.
struct MessagePreview: Sendable {
    let receivers: [ReceiverSummary]
    let findings: [Finding]

    static let shape = Shape<MessagePreview>(
        "MessageDryRun",
        [
            .member("sendable", .count, "The number of receivers to whom the message would be sent at once.") {
                preview in
                Int64(preview.receivers.count { $0.state == .pending })
            },
            .array(
                "receivers",
                ReceiverSummary.shape.kind,
                "The receivers: `pending` if the message would be sent at once, `waiting` for a quota, or `failed`.",
                \.receivers
            ),
            .array("findings", Finding.shape.kind, "What Kakao would cut or drop of the template.", \.findings),
        ]
    )
}
