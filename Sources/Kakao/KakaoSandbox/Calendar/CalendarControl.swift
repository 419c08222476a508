import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import Schemas

/// The controls `/sandbox/users/{user_id}/calendar` and `/sandbox/calendar`, which show and change the calendars of a user and
/// those of the app's channels (`docs/sandbox.md`).
struct CalendarControl: Sendable {
    let calendars: CalendarStore

    func addRoutes(to router: inout Router) {
        let path = "/sandbox/users/{user_id}/calendar"
        router.control(.get, path) { Self.response(calendars.user(try $0.userID)) }
        router.control(.post, path, setUser)
        router.control(.get, "/sandbox/calendar") { _ in Self.response(calendars.published) }
        router.control(.post, "/sandbox/calendar", setPublished)
    }

    /// Changes a user's calendar. Members that are absent from the input stay as they are.
    private func setUser(_ request: Request) throws -> Response {
        let userID = try request.userID
        let input = try ControlInput(
            bodyOf: request,
            known: ["calendars", "events", "tasks", "following", "subscriptions"]
        )
        let ownCalendars = try input.records("calendars", TalkCalendar.record)
        let events = try Self.events("events", input, owner: "calendar_id", TalkCalendar.primary)
        let tasks = try Self.objects("tasks", input)?.map { object throws(Problem) in
            var members = object
            let id = try Self.removeID("tasks", &members)
            return CalendarStore.Task(
                id: id,
                isCompleted: members.removeValue(forName: "completed")?.bool ?? false,
                members: members
            )
        }
        let following = try input.strings("following")
        let subscriptions = try input.strings("subscriptions")
        return calendars.update(userID) { user, _ in
            if let ownCalendars { user.calendars = ownCalendars }
            if let events { user.events = events }
            if let tasks { user.tasks = tasks }
            if let following { user.following = following }
            if let subscriptions { user.subscriptions = subscriptions }
            return Self.response(user)
        }
    }

    /// Changes the events and calendars of the app's channels.
    private func setPublished(_ request: Request) throws -> Response {
        let input = try ControlInput(bodyOf: request, known: ["events", "calendars"])
        let channel = AppDefinition.channels[0].publicID
        let events = try Self.events("events", input, owner: "channel_public_id", channel)
        let subscribable = try input.records("calendars", CalendarStore.ChannelCalendar.record)
        return calendars.updatePublished { published in
            if let events { published.events = events }
            if let subscribable { published.calendars = subscribable }
            return Self.response(published)
        }
    }

    // MARK: Input

    /// Returns the objects of an array; `nil` if there is none.
    private static func objects(_ name: String, _ input: ControlInput) throws(Problem) -> [JSONObject]? {
        guard input.value(name) != nil else { return nil }
        return try input.array(name).map { value throws(Problem) in
            guard let object = value.object else {
                throw ControlInput.problem(
                    name,
                    "has a value that is not a JSON object",
                    allowed: "an array of objects"
                )
            }
            return object
        }
    }

    /// Removes the member `id` of an object, and returns it.
    private static func removeID(_ name: String, _ members: inout JSONObject) throws(Problem) -> String {
        guard let id = members.removeValue(forName: "id")?.string, !id.isEmpty else {
            throw ControlInput.problem(name, "has an object without an id", allowed: "objects with a text id")
        }
        return id
    }

    /// Returns the events of an array; `nil` if there is none.
    ///
    /// - Parameters:
    ///   - owner: The name of the member with the calendar or the channel.
    ///   - usual: The owner of an event without one.
    private static func events(
        _ name: String,
        _ input: ControlInput,
        owner: String,
        _ usual: String
    ) throws(Problem) -> [CalendarStore.Event]? {
        try objects(name, input)?.map { object throws(Problem) in
            var members = object
            let id = try removeID(name, &members)
            let ownerID = members.removeValue(forName: owner)?.string ?? usual
            do throws(KakaoRefusal) {
                return try CalendarStore.Event(id: id, owner: ownerID, members: JSONObject()).changed(by: members)
            } catch {
                throw ControlInput.problem(name, "has an invalid event", allowed: "events with a title and a time")
            }
        }
    }

    // MARK: Responses

    private static func response(_ user: CalendarStore.User) -> Response {
        .json { json in
            json.member("user_id", String(user.id))
            json.array("calendars") { array in
                for calendar in user.calendars { array.element { TalkCalendar.record.write(calendar, &$0) } }
            }
            json.member("events", user.events.map { $0.shown(owner: "calendar_id") })
            json.array("tasks") { array in
                for task in user.tasks {
                    var members: JSONObject = ["id": .string(task.id), "completed": .bool(task.isCompleted)]
                    for (name, value) in task.members.members where members[name] == nil { members[name] = value }
                    array.element(members)
                }
            }
            json.member("following", user.following)
            json.member("subscriptions", user.subscriptions)
        }
    }

    private static func response(_ published: CalendarStore.Published) -> Response {
        .json { json in
            json.member("events", published.events.map { $0.shown(owner: "channel_public_id") })
            json.array("calendars") { array in
                for calendar in published.calendars {
                    array.element { CalendarStore.ChannelCalendar.record.write(calendar, &$0) }
                }
            }
        }
    }
}

extension CalendarStore.Event {
    /// The event with its id and its owner.
    fileprivate func shown(owner name: String) -> JSONValue {
        var object: JSONObject = ["id": .string(id), name: .string(owner)]
        for (name, value) in members.members where object[name] == nil { object[name] = value }
        return .object(object)
    }
}
