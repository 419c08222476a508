internal import EventLoop
internal import FoundationEssentials
internal import Glibc
internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import Journal

/// `GET /v1/status`: the state of this server and its dependencies, for operators.
///
/// One instance serves all event loops of a server.
struct StatusRoutes: Sendable {
    static let path = "/v1/status"

    let access: ReaderAccess
    let availability: KakaoAvailability
    let queue: QueueDepth
    let journal: Journal?
    /// When this server started.
    let startedAt = MonotonicTime.now

    func add(to router: inout ServiceRouter) {
        router.on(.get, Self.path, .operator(.read), checkedBy: access.check, show)
    }

    private func show(_ request: Request) async throws -> Response {
        let counts = await queue.counts()
        var json = JSONWriter(reservingCapacity: 1024)
        json.object { json in
            json.object("sender") { json in
                let state = availability.senderState
                json.member("state", state.label)
                json.member(
                    "reason",
                    availability.refusalReason ?? (state == .waiting ? "A quota at Kakao is used up." : nil)
                )
                json.member("remedy", state.remedy)
            }
            json.object("backlog") { json in
                json.member("batches", counts?.waitingBatches)
                json.member("oldest_seconds", counts?.oldestWaitingSeconds)
            }
            if let status = journal?.status {
                json.object("journal") { json in
                    json.member("open", status.isOpen)
                    json.member("records", status.records)
                    json.member("oldest_seconds", status.oldestSeconds)
                    json.member("rejected", status.rejected)
                }
            } else {
                json.member("journal", String?.none)
            }
            json.object("database") { $0.member("up", counts != nil) }
            json.object("kakao") { json in
                let kakao = availability.lastCall
                json.member("state", availability.kakaoState.rawValue)
                json.member("last_call_at", kakao?.at.rfc3339)
                json.member("last_error", kakao?.lastError?.label)
                json.member("last_error_at", kakao?.lastErrorAt?.rfc3339)
            }
            json.array("servers") { json in
                json.object { json in
                    json.member("host", Self.host)
                    json.member("version", ServerVersion.current)
                    json.member("uptime_seconds", (MonotonicTime.now - startedAt).components.seconds)
                }
            }
        }
        return .json(json.bytes)
    }

    private static let host: String = {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0 else { return "localhost" }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }()
}

/// The version of the program.
package enum ServerVersion {
    package static let current = "0.1.0"
}

extension Journal.Status {
    /// The age in seconds of the oldest record that waits to be stored; 0 when none does.
    var oldestSeconds: Double { oldest.map { max(0, -$0.timeIntervalSinceNow) } ?? 0 }
}

extension KakaoAvailability.SenderState {
    /// The advice for an operator; `nil` if nothing is wrong.
    fileprivate var remedy: String? {
        switch self {
        case .running: nil
        case .waiting: "Wait, or ask Kakao for a larger quota. The sender resumes by itself."
        case .halted:
            "Check kakao.admin_key and the app's settings at Kakao (push-server doctor), then resume the halted pushes."
        }
    }
}
