import FoundationEssentials
import HTTPClient
import HTTPTypes
import JSON
import Net
import Schemas
import TestSupport
import Testing

@testable import KakaoAPI

/// Compares each declared call with a request and a response from Kakao's documentation or SDKs, which the sandbox cannot
/// do, because it follows from the same declaration.
@Suite struct FixtureTests {
    private static let directory = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Fixtures")
    private static let names = KakaoCalls.all.map { $0.name }

    @Test("Each call has a fixture, and each fixture a call")
    func complete() throws {
        let files = try FileManager.default.contentsOfDirectory(atPath: Self.directory.path)
        #expect(Set(files) == Set(Self.names.map { "\($0).json" }))
        #expect(Set(Self.names).count == Self.names.count)
    }

    @Test("The client sends what the documentation shows, and reads the response", arguments: names)
    func fixture(name: String) async throws {
        let data = try Data(contentsOf: Self.directory.appending(path: "\(name).json"))
        let fixture = try Fixture(JSONValue(parsing: Array(data)))
        let call = try #require(KakaoCalls.all.first { $0.name == name })
        try await Self.check(call, fixture)
    }

    private static func check<Call: KakaoCall>(_: Call.Type, _ fixture: Fixture) async throws {
        let operation = Call.operation
        let call = try operation.parameters.read(fixture.parameters(operation.parameters(inPath: fixture.path)))
        let (result, calls) = try await withKakao(answering: answer(fixture.status, fixture.body)) { kakao in
            try await kakao.call(call, as: fixture.credential, uploads: fixture.uploads)
        }
        let request = try #require(calls.first)
        #expect(request.lines.first == "\(fixture.method) \(fixture.target) HTTP/1.1")
        #expect(operation.methods.map(\.rawValue).contains(fixture.method))
        let authorization = request.lines.first { $0.hasPrefix("Authorization: ") }
        #expect(authorization == fixture.authorization.map { "Authorization: \($0)" })
        if operation.sendsJSON {
            #expect(try JSONValue(parsing: Array(request.body.utf8)) == fixture.json)
            #expect(request.lines.contains("Content-Type: application/json;charset=UTF-8"))
        } else if operation.uploadPart == nil {
            #expect(Set(request.form) == Set(fixture.form))
        } else {
            let type = try #require(
                request.lines.first { $0.hasPrefix("Content-Type: multipart/form-data; boundary=") }
            )
            #expect(request.body == fixture.multipart(try #require(type.split(separator: "boundary=").last)))
        }
        // What the sandbox would write is a part of what Kakao writes.
        let written = operation.answer.encode(result)
        if let documented = try? JSONValue(parsing: fixture.body) {
            #expect(try JSONValue(parsing: written).isPart(of: documented))
        } else {
            #expect(written.isEmpty)
        }
        let example = operation.answer.encode(operation.answer.example)
        #expect(operation.answer.decode(example) != nil)
    }

    @Test(
        "No call takes the response of another host for Kakao's",
        arguments: [200, 201, 204, 302, 400, 401, 403, 404, 407, 429, 500, 502, 503, 504],
        [
            "<html><head><title>Log in to the network</title></head></html>", "", "OK", "{\"id\":12",
            "{\"code\":403,\"message\":\"no\"}",
            "{\"error\":\"Forbidden\",\"status\":403}",
        ]
    )
    func anotherHost(status: Int, body: String) async throws {
        let directory = Self.directory
        _ = try await withKakao(answering: answer(status, status == 204 ? "" : body)) { kakao in
            for call in KakaoCalls.all {
                let data = try Data(contentsOf: directory.appending(path: "\(call.name).json"))
                let fixture = try Fixture(JSONValue(parsing: Array(data)))
                let error = try await Self.error(of: call, fixture, kakao)
                // An empty success cannot be told apart from Kakao's where Kakao's is empty.
                let isEmpty = status < 300 && call.hasEmptyAnswer && (status == 204 || body.isEmpty)
                #expect((error == nil) == isEmpty, "\(call.name)")
                #expect(error.map { $0.disposition == .unrecognized } ?? true, "\(call.name)")
            }
        }
    }

    private static func error<Call: KakaoCall>(
        of _: Call.Type,
        _ fixture: Fixture,
        _ kakao: KakaoClient
    ) async throws -> KakaoError? {
        let parameters = Call.operation.parameters
        let call = try parameters.read(fixture.parameters(Call.operation.parameters(inPath: fixture.path)))
        return await failure { () async throws(KakaoError) in
            _ = try await kakao.call(call, as: fixture.credential, uploads: fixture.uploads)
        }
    }

    /// A request and a response from Kakao's documentation.
    private struct Fixture {
        let method: String
        let path: String
        let authorization: String?
        private let query: JSONObject
        private let fields: JSONObject
        private let files: [JSONValue]
        let status: Int
        let body: String

        init(_ json: JSONValue) throws {
            let request = try #require(json["request"])
            #expect(json["source"]?.string?.isEmpty == false)
            method = try #require(request["method"]?.string)
            path = try #require(request["path"]?.string)
            authorization = request["authorization"]?.string
            query = request["query"]?.object ?? JSONObject()
            fields = (request["form"] ?? request["json"])?.object ?? JSONObject()
            files = request["files"]?.array ?? []
            status = Int(try #require(json["response"]?["status"]?.integer))
            body = json["response"]?["body"]?.description ?? ""
        }

        /// Returns all parameters, including those in the path.
        func parameters(_ inPath: [(name: String, text: String)]) -> JSONObject {
            var parameters = query
            for (name, value) in fields.members { parameters[name] = value }
            for (name, text) in inPath { parameters[name] = .string(text) }
            return parameters
        }

        /// The path and the query in the order of the fixture.
        var target: String {
            var form = FormBody()
            for (name, value) in query.members { form.append(name, value.string ?? "") }
            return form.bytes.isEmpty ? path : "\(path)?\(String(decoding: form.bytes, as: UTF8.self))"
        }

        var json: JSONValue { .object(fields) }

        var form: [String] {
            fields.members.map { "\($0.name)=\($0.value.string ?? "")" }
        }

        var uploads: [KakaoUpload] {
            files.map { file in
                KakaoUpload(
                    fileName: file["filename"]?.string ?? "",
                    contentType: file["type"]?.string ?? "",
                    bytes: Self.bytes(file)
                )
            }
        }

        private static func bytes(_ file: JSONValue) -> [UInt8] {
            Array(Data(base64Encoded: file["base64"]?.string ?? "") ?? Data())
        }

        /// The fields and the files as `multipart/form-data`.
        func multipart(_ boundary: Substring) -> String {
            var lines: [String] = []
            for (name, value) in fields.members {
                lines += ["--\(boundary)", "Content-Disposition: form-data; name=\"\(name)\"", "", value.string ?? ""]
            }
            for file in files {
                let (name, fileName) = (file["name"]?.string ?? "", file["filename"]?.string ?? "")
                lines += [
                    "--\(boundary)",
                    "Content-Disposition: form-data; name=\"\(name)\"; filename=\"\(fileName)\"",
                    "Content-Type: \(file["type"]?.string ?? "")", "",
                    String(decoding: Self.bytes(file), as: UTF8.self),
                ]
            }
            return (lines + ["--\(boundary)--", ""]).joined(separator: "\r\n")
        }

        var credential: KakaoCredential {
            switch authorization {
            case nil: return .none
            case "Bearer user-token": return .userToken("user-token")
            case "KakaoAK rest-api-key": return .restAPIKey
            case "KakaoAK native-app-key": return .appKey
            default:
                let target = (fields["target_id"] ?? query["target_id"])?.string.flatMap { Int64($0) }
                return target.map { .adminKeyForUser($0) } ?? .adminKey
            }
        }
    }
}

extension JSONValue {
    /// Returns whether each member and element is in another value too.
    fileprivate func isPart(of other: JSONValue) -> Bool {
        switch (self, other) {
        case (.object(let object), .object(let whole)):
            object.members.allSatisfy { member in whole[member.name].map { member.value.isPart(of: $0) } ?? false }
        case (.array(let elements), .array(let whole)):
            elements.count == whole.count && zip(elements, whole).allSatisfy { $0.isPart(of: $1) }
        default: self == other
        }
    }
}

extension KakaoCall {
    fileprivate static var hasEmptyAnswer: Bool { operation.answer.admitsEmpty }
}
