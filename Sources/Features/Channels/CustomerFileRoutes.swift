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
        "Creates a customer file of a channel. If Kakao's response is lost, the file is found by its name.",
        body: .fields(CreateCustomerFile.operation.parameters.members),
        answers: [
            .json(.ok, CustomerFile.shape, "The file.")
        ],
        problems: [.refusedByKakao, .kakaoUnavailable, .badGateway, .serverRefused, .outcomeUnknown],
        auditing: .handler,
        handler: create
    )

    /// Creates a file. If Kakao's response is lost, looks for a new file of this name: Kakao creates no second one.
    @Sendable private func create(_ call: Call) async throws -> Response {
        let request: CreateCustomerFile
        do throws(Record<CreateCustomerFile>.InvalidMember) {
            request = try CreateCustomerFile.operation.parameters.read(call.fields)
        } catch {
            throw error.problem
        }
        return try await audit.recording(call, of: .object("\(request.channelPublicID) \(request.fileName)")) {
            // The caller may disconnect after the file was created.
            try await call.request.uninterrupted { [self] in try await create(request) }
        }
    }

    private func create(_ request: CreateCustomerFile) async throws -> Response {
        let before = await files(of: request)
        do throws(KakaoError) {
            let answer = try await kakao.call(request, as: kakao.settings.appCredential)
            return .json(CustomerFile.shape.json(CustomerFile(id: answer.fileID)), headerFields: .answeredByKakao)
        } catch {
            guard error.hasUnknownOutcome, let before, let after = await files(of: request),
                let id = after.subtracting(before).first
            else {
                throw Problem(error, about: "the file", isIdempotent: false, keepsStatus: true)
            }
            return .json(CustomerFile.shape.json(CustomerFile(id: id)))
        }
    }

    /// Returns the ids of the files with the name of a request; `nil` if Kakao does not list them.
    private func files(of request: CreateCustomerFile) async -> Set<Int64>? {
        let list = RetrieveCustomerFiles(channelPublicID: request.channelPublicID)
        guard let files = try? await kakao.call(list, as: kakao.settings.appCredential).files else { return nil }
        return Set(files.filter { $0.name == request.fileName }.compactMap(\.id))
    }
}

/// A customer file.
private struct CustomerFile: Sendable {
    let id: Int64

    static let shape = Shape<CustomerFile>(
        "CustomerFile",
        [.member("file_id", .count, "The file, as Kakao numbers it.", \.id)]
    )
}
