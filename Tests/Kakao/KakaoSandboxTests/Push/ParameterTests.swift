import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Net
import Testing

/// Invalid parameters, which Kakao rejects with -2.
@Suite(.timeLimit(.minutes(1))) struct ParameterTests {
    private static let notUsers = [
        "", "0", "-1", "+5", "1.0", "1e3", "01", " 1", "1 ", "9223372036854775808", "18446744073709551617", "x",
    ]

    @Test("A user id that is not an integer from 1 to 2^63-1 is rejected", arguments: notUsers)
    func user(text: String) async throws {
        try await withSandbox { kakao in
            let fields: KeyValuePairs = ["uuid": text, "device_id": "d", "push_type": "gcm", "push_token": "t"]
            let response = try await kakao.call("/v1/push/register", fields)
            #expect(response.status == 400)
            #expect(response.code == -2)
            #expect(kakao.sandbox.stats.tokens == 0)
        }
    }

    @Test(
        "A list that is not an array of user ids is rejected",
        arguments: [
            "", "1", "{}", "[", "[]x", "[1,]", "[1 2]", "[null]", "[[1]]", "[1.0]", "[0]", "[9223372036854775808]",
        ]
    )
    func list(text: String) async throws {
        try await withSandbox { kakao async throws in
            #expect(try await kakao.call("/v1/push/send", ["uuids": text, "push_message": "{}"]).code == -2)
            #expect(kakao.sandbox.stats.sends == 0)
        }
    }

    @Test("User ids are numbers or strings, and keep all digits")
    func lists() async throws {
        try await withSandbox { kakao async throws in
            let list = "\t[ 1376016924429759228 , \"9223372036854775807\" ]\r\n"
            #expect(try await kakao.send(list, [:]).status == 200)
            for userID in [1_376_016_924_429_759_228, Int64.max] {
                #expect(kakao.sandbox.deliveries(to: userID).count == 1)
            }
        }
    }

    @Test("A send to 100 users is accepted, and one to 101 or none is rejected")
    func tooMany() async throws {
        try await withSandbox { kakao async throws in
            let users = (1...101).map(String.init)
            let hundred = "[\(users.dropLast().joined(separator: ","))]"
            #expect(try await kakao.send(hundred, [:]).status == 200)
            for refused in ["[\(users.joined(separator: ","))]", "[]"] {
                #expect(try await kakao.send(refused, [:]).code == -2)
                #expect(try await kakao.call("/v1/push/tokens", ["uuids": refused]).code == -2)
            }
            #expect(kakao.sandbox.stats.users == 100)
        }
    }

    @Test("A call that lacks a required parameter is rejected")
    func missing() async throws {
        try await withSandbox { kakao async throws in
            let device: KeyValuePairs = ["uuid": "1", "device_id": "d", "push_type": "gcm", "push_token": "t"]
            for left in device.indices {
                var form = FormBody()
                for index in device.indices where index != left {
                    form.append(device[index].key, device[index].value)
                }
                let path = "/v1/push/register?" + String(decoding: form.bytes, as: UTF8.self)
                #expect(try await kakao.call(path).code == -2)
            }
            #expect(try await kakao.call("/v1/push/tokens").code == -2)
            #expect(try await kakao.call("/v1/push/send", ["uuids": "[1]"]).code == -2)
            #expect(try await kakao.call("/v1/push/send", ["push_message": "{}"]).code == -2)
            #expect(try await kakao.call("/v1/push/deregister", ["uuid": "1", "device_id": "d"]).code == -2)
        }
    }

    @Test("An invalid device is rejected with Kakao's message, which contains the push token")
    func kpusher() async throws {
        try await withSandbox { kakao in
            let long = String(repeating: "가", count: 65)
            for (version, type, device) in [
                ("v1", "fcm", "d"), ("v2", "gcm", "d"), ("v1", "gcm", long), ("v1", "APNS", "d"),
            ] {
                let response = try await kakao.call(
                    "/\(version)/push/register",
                    ["uuid": "1", "device_id": device, "push_type": type, "push_token": "secret token"]
                )
                let words = "appName=app-123456, uid=1, did=\(device), pushType=\(type), pushToken=secret token"
                #expect(response.status == 400)
                #expect(response.json?["msg"]?.string == "[app-123456] Invalid Kpusher Param. ( \(words) )")
                #expect(response.code == -2)
            }
        }
    }

    @Test("A device id has up to 64 characters of any kind")
    func longDeviceID() async throws {
        try await withSandbox { kakao async throws in
            let device = String(repeating: "가", count: 64)
            let fields: KeyValuePairs = ["uuid": "1", "device_id": device, "push_type": "gcm", "push_token": "t"]
            #expect(try await kakao.call("/v1/push/register", fields).status == 200)
        }
    }

    @Test(
        "A push_message that is not an object, or has parts that are not, is rejected",
        arguments: [
            "", "x", "[]", "1", "{", #"{"for_gcm":1}"#, #"{"for_apns":"x"}"#, #"{"for_gcm":{"custom_field":[]}}"#,
        ]
    )
    func message(text: String) async throws {
        try await withSandbox { kakao in
            let response = try await kakao.call("/v1/push/send", ["uuids": "[1]", "push_message": text])
            #expect(response.status == 400)
            #expect(response.code == -2)
            #expect(kakao.sandbox.stats.sends == 0)
        }
    }

    @Test("custom_field for Android has up to 4 KB")
    func customField() async throws {
        try await withSandbox { kakao in
            let room = 4096 - #"{"a":""}"#.utf8.count
            for (count, status) in [(room, 200), (room + 1, 400)] {
                let text = JSONValue.string(String(repeating: "x", count: count))
                let response = try await kakao.send("[1]", ["for_gcm": ["custom_field": ["a": text]]])
                #expect(response.status == status)
            }
        }
    }

    @Test("A form that cannot be decoded is rejected with a JSON error like Kakao's")
    func badForm() async throws {
        try await withSandbox { kakao in
            let response = try await kakao.call("/v1/push/tokens?uuid=%zz")
            #expect(response.status == 400)
            #expect(response.code == -2)
        }
    }

    @Test("bypass is true or false")
    func bypass() async throws {
        try await withSandbox { kakao async throws in
            #expect(try await kakao.send("[1]", [:], bypass: "1").code == -2)
            #expect(try await kakao.send("[1]", [:], bypass: "false").status == 200)
        }
    }
}
