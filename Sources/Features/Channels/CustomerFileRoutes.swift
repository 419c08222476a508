import Endpoints
import HTTPServer
import HTTPTypes
import KakaoAPI
import Runtime
import Schemas

/// `POST /v1/talkchannel/create/target_user_file`, as in Kakao's API: creates a customer file. The other calls about customer files are
/// relayed as they are.
struct CustomerFileRoutes: RouteCollection {
    static let title = "Customer files of KakaoTalk channels, as in Kakao's API"
    static let operations = [creating]

    let kakao: KakaoClient
    let audit: AuditLog

    private static let creating = Operation(
        "channelFileCreate",
        .post,
        CreateCustomerFile.operation.path,
        .operator(.talk),
        "Creates a customer file of a channel. Its name finds it again if Kakao's response is lost.",
        body: .fields(CreateCustomerFile.operation.parameters.members),
        answers: [
            .json(.ok, CustomerFile.shape, "The file.")
        ],
        problems: [.refusedByKakao, .kakaoUnavailable, .badGateway, .serverRefused, .outcomeUnknown],
        auditing: .handler,
        handler: create
    )

    /// Creates a file. If there is no response of Kakao's, looks for a file of this name: Kakao creates no second one.
    @Sendable private func create(_ call: Call) async throws -> Response {
        let request: CreateCustomerFile
        do throws(Record<CreateCustomerFile>.InvalidMember) {
            request = try CreateCustomerFile.operation.parameters.read(call.fields)
        } catch {
            throw Problem.field(
                error.name,
                error.allowed,
                error.detail.map { "\($0)." },
                isMissing: error.isMissing
            )
        }
        return try await audit.recording(call, of: .object("\(request.channelPublicID) \(request.fileName)")) {
            // The caller may disconnect after the file was created.
            try await call.request.uninterrupted { [self] in try await create(request) }
        }
    }

    private func create(_ request: CreateCustomerFile) async throws -> Response {
        do throws(KakaoError) {
            let answer = try await kakao.call(request, as: credential)
            return .json(CustomerFile.shape.json(CustomerFile(id: answer.fileID)), headerFields: .answeredByKakao)
        } catch {
            guard error.hasUnknownOutcome, let id = await file(request) else {
                throw Problem(error, about: "the file", isIdempotent: false, keepsStatus: true)
            }
            return .json(CustomerFile.shape.json(CustomerFile(id: id)))
        }
    }

    /// Returns the id of the file with the name of a request; `nil` if there is none, or if that cannot be known.
    private func file(_ request: CreateCustomerFile) async -> Int64? {
        let list = RetrieveCustomerFiles(channelPublicID: request.channelPublicID)
        return try? await kakao.call(list, as: credential).files.first { $0.name == request.fileName }?.id
    }

    private var credential: KakaoCredential { kakao.settings.restAPIKey == nil ? .adminKey : .restAPIKey }
}

/// A customer file.
private struct CustomerFile: Sendable {
    let id: Int64

    static let shape = Shape<CustomerFile>(
        "CustomerFile",
        [.member("file_id", .count, "The file, as Kakao numbers it.", \.id)]
    )
}
