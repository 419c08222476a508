import HTTPServer
import HTTPTypes
import JSON

/// The two routes that every server in the comparison implements.
struct BenchmarkRoutes {
    func add(to router: inout Router) {
        let alive = Response.text("ok")
        router.add(.get, "/healthz", .immediate { _ in alive })
        router.add(.post, "/v1/devices", .immediate(register))
    }

    /// Parses a registration into typed values and returns them as JSON.
    private func register(_ request: Request) throws -> Response {
        guard request.contentType == "application/json" else {
            throw Problem(.unsupportedMediaType, "Unsupported Content-Type. Allowed: application/json.")
        }
        let registration: Registration?
        do {
            registration = Registration(try JSONValue(parsing: request.body))
        } catch {
            throw Problem(.badRequest, "The body is not JSON: \(error).")
        }
        guard let registration else { throw Problem(.badRequest, "The body is not a valid registration.") }
        var json = JSONWriter(reservingCapacity: 512)
        json.value(registration)
        return .json(json.bytes)
    }
}

/// A device as described by its app.
private struct Registration: JSONWritable {
    let userID: Int64
    let deviceID: String
    let pushType: String
    let pushToken: String
    let locale: String?
    let timezone: String?
    let appVersion: String?
    let tags: [String]

    /// Returns `nil` if a value is missing or has another type.
    init?(_ json: JSONValue) {
        guard case .object(let object) = json,
            let userID = object["user_id"]?.integer,
            let deviceID = object["device_id"]?.string,
            let pushType = object["push_type"]?.string,
            let pushToken = object["push_token"]?.string,
            let tags = object["tags"]?.array
        else { return nil }
        self.userID = userID
        self.deviceID = deviceID
        self.pushType = pushType
        self.pushToken = pushToken
        locale = object["locale"]?.string
        timezone = object["timezone"]?.string
        appVersion = object["app_version"]?.string
        self.tags = tags.compactMap(\.string)
        guard self.tags.count == tags.count else { return nil }
    }

    func write(to writer: inout JSONWriter) {
        writer.object { json in
            json.member("user_id", userID)
            json.member("device_id", deviceID)
            json.member("push_type", pushType)
            json.member("push_token", pushToken)
            json.member("locale", locale)
            json.member("timezone", timezone)
            json.member("app_version", appVersion)
            json.member("tags", tags)
        }
    }
}
