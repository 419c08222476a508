import HTTPTypes
package import JSON
import Schemas

/// Adds a task to the list of a user. (Kakao, "Talk Calendar: REST API", "Create task".)
///
/// Needs the scope `talk_calendar_task`. Not idempotent: each call adds a task.
package struct CreateTask: KakaoCall {
    package typealias Answer = CalendarIDAnswer

    /// The members of ``CalendarTaskDetails``.
    package let task: JSONObject

    package static let operation = KakaoOperation<Self>(
        "calendar_task_create",
        [.post],
        "/v1/api/calendar/create/task",
        .calendar,
        [.userToken],
        "Adds a task to the user's list.",
        parameters: Record(
            .required("task", \.task, .object(like: CalendarTaskDetails.record), "The task, as JSON."),
            make: Self.init
        ),
        answer: CalendarIDAnswer.task
    )
}
