import HTTPTypes
import Schemas

/// Lists the tasks of a user. (Kakao, "Talk Calendar: REST API", "Retrieve list of tasks".)
///
/// Needs the scope `talk_calendar_task`.
package struct RetrieveTasks: KakaoCall {
    package typealias Answer = [CalendarTask]

    /// `TODO`, `COMPLETED` or `ALL`.
    package var status: String?
    package var from: String?
    package var to: String?

    package static let operation = KakaoOperation<Self>(
        "calendar_tasks",
        [.get],
        "/v1/api/calendar/tasks",
        .calendar,
        [.userToken],
        "Lists the user's tasks.",
        parameters: Record(
            .optional("task_status", \.status, .text(1...32), "The tasks to list: `TODO`, `COMPLETED` or `ALL`."),
            .optional("from", \.from, .text(1...64), "The beginning of the period."),
            .optional("to", \.to, .text(1...64), "The end of the period."),
            make: Self.init
        ),
        answer: .json(CalendarTask.record.kind("KakaoCalendarTask").array.orMember("tasks"), example: [.example])
    )
}

/// A task in an answer.
package struct CalendarTask: Sendable {
    package let id: String?
    /// Whether the user has done it.
    package let isCompleted: Bool?
    package let details: CalendarTaskDetails

    package init(id: String?, isCompleted: Bool?, details: CalendarTaskDetails) {
        self.id = id
        self.isCompleted = isCompleted
        self.details = details
    }

    static let record = Record<CalendarTask>(
        .optional("id", \.id, .text, "The id."),
        .optional("completed", \.isCompleted, .boolean, "Whether the user has done it."),
        .members(of: CalendarTaskDetails.record, \.details),
        make: CalendarTask.init
    )

    static let example = CalendarTask(
        id: "6399b7d0afcec577",
        isCompleted: false,
        details: CalendarTaskDetails(content: "Bake a cake", dueInfo: nil, recurrence: nil)
    )
}
