import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import Locking
import Schemas

/// The customer files of channels.
final class CustomerFiles: Sendable {
    /// How many files a channel may have.
    fileprivate static let slots = 30

    struct File: Sendable {
        let id: Int64
        let channel: String
        let name: String
        let schema: [String: String]
        /// The fields of the users, by user type and id: `app 1234`.
        var users: [String: JSONObject] = [:]
        /// The number of calls that have changed its users.
        var calls = 0
    }

    private struct State {
        var files: [File] = []
        var nextID: Int64 = 759
    }

    private let state = Locked(State())

    func files(of channel: String) -> [File] { state.withLock { $0.files.filter { $0.channel == channel } } }

    /// Adds a file. Returns its id.
    ///
    /// - Throws: Kakao's error for a name that is in use, and for a channel without an empty slot.
    func create(_ call: CreateCustomerFile) throws(KakaoRefusal) -> Int64 {
        try state.withLock { state throws(KakaoRefusal) in
            let own = state.files.filter { $0.channel == call.channelPublicID }
            guard !own.contains(where: { $0.name == call.fileName }) else {
                throw .badParameter("INVALID_FILE_NAME")
            }
            guard own.count < Self.slots else { throw .badParameter("NO_EMPTY_SLOT") }
            let id = state.nextID
            state.nextID += 1
            state.files.append(
                File(id: id, channel: call.channelPublicID, name: call.fileName, schema: call.schema)
            )
            return id
        }
    }

    /// Adds users to a file, or replaces their fields. Returns how many are friends of the channel.
    func update(_ call: UpdateCustomers, isFriend: (String) -> Bool) throws(KakaoRefusal) -> Int {
        try change(call.fileID, call.channelPublicID) { file in
            var count = 0
            for user in call.users where isFriend(user.id) {
                // Kakao drops fields that the file does not have.
                var fields = JSONObject()
                for (name, value) in user.field.members where file.schema[name] != nil { fields[name] = value }
                file.users["\(call.type.rawValue) \(user.id)"] = fields
                count += 1
            }
            return count
        }
    }

    /// Deletes users from a file. Returns how many it had.
    func delete(_ call: DeleteCustomers) throws(KakaoRefusal) -> Int {
        try change(call.fileID, call.channelPublicID) { file in
            call.userIDs.count { file.users.removeValue(forKey: "\(call.type.rawValue) \($0.id)") != nil }
        }
    }

    private func change(
        _ id: Int64,
        _ channel: String,
        _ change: (inout File) -> Int
    ) throws(KakaoRefusal) -> Int {
        try state.withLock { state throws(KakaoRefusal) in
            guard let index = state.files.firstIndex(where: { $0.id == id && $0.channel == channel }) else {
                throw .badParameter("INVALID_FILE_ID")
            }
            state.files[index].calls += 1
            return change(&state.files[index])
        }
    }
}

/// Kakao's calls about customer files, and the control that shows them: `GET /sandbox/customer-files`.
struct CustomerFileCalls: Sendable {
    let files: CustomerFiles
    let users: AppUsers

    func add(to server: inout KakaoCallServer) {
        server.on(CreateCustomerFile.self) { call, _ throws(KakaoRefusal) in
            try Self.check(call.channelPublicID)
            return CreateCustomerFile.Answer(fileID: try files.create(call))
        }
        server.on(RetrieveCustomerFiles.self) { call, _ throws(KakaoRefusal) in
            try Self.check(call.channelPublicID)
            let own = files.files(of: call.channelPublicID)
            return RetrieveCustomerFiles.Answer(
                files: own.map { RetrieveCustomerFiles.File(id: $0.id, name: $0.name) },
                usedSlots: Int64(own.count),
                emptySlots: Int64(CustomerFiles.slots - own.count)
            )
        }
        server.on(UpdateCustomers.self) { call, _ throws(KakaoRefusal) in
            let count = try files.update(call) { isFriend($0, call) }
            return UpdateCustomers.Answer(
                fileID: call.fileID,
                requestCount: Int64(call.users.count),
                successCount: Int64(count)
            )
        }
        server.on(DeleteCustomers.self) { call, _ throws(KakaoRefusal) in
            UpdateCustomers.Answer(
                fileID: call.fileID,
                requestCount: Int64(call.userIDs.count),
                successCount: Int64(try files.delete(call))
            )
        }
    }

    func addRoutes(to router: inout Router) {
        router.control(.get, "/sandbox/customer-files") { _ in
            let files = AppDefinition.channels.flatMap { self.files.files(of: $0.publicID) }
            return .json { json in
                json.array("items") { array in
                    for file in files {
                        array.object { json in
                            json.member("file_id", file.id)
                            json.member("channel_public_id", file.channel)
                            json.member("file_name", file.name)
                            json.member("calls", file.calls)
                            json.object("users") { json in
                                for (id, fields) in file.users.sorted(by: { $0.key < $1.key }) {
                                    json.member(id, JSONValue.object(fields))
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// A user counts unless the user has blocked the channel. A phone number counts.
    private func isFriend(_ id: String, _ call: UpdateCustomers) -> Bool {
        guard call.type == .app else { return true }
        guard let userID = Int64(id) else { return false }
        return users.user(userID).talk.channels[call.channelPublicID]?.kind != .blocked
    }

    private static func check(_ channel: String) throws(KakaoRefusal) {
        guard AppDefinition.channels.contains(where: { $0.publicID == channel }) else {
            throw .badParameter("INVALID_APP_ID")
        }
    }
}
