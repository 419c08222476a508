import HTTPTypes
import Schemas

/// Marks a task of a user as done, or as not done. (Kakao, "Talk Calendar: REST API", "Complete task".)
///
/// Needs the scope `talk_calendar_task`. Idempotent: it sets a state.
package struct CompleteTask: KakaoCall {
    package typealias Answer = CalendarChangeAnswer?

    package let taskID: String
    package let isCompleted: Bool

    package static let operation = KakaoOperation<Self>(
        "calendar_task_complete",
        [.post],
        "/v1/api/calendar/complete/task",
        .calendar,
        [.userToken],
        isIdempotent: true,
        "Marks a task of the user as done, or as not done.",
        parameters: Record(
            .taskID(\.taskID),
            .required("complete", \.isCompleted, .boolean, "Whether the task is done."),
            make: Self.init
        ),
        answer: CalendarChangeAnswer.task
    )
}
