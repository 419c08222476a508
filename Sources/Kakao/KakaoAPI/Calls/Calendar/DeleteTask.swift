import HTTPTypes
import Schemas

/// Deletes a task of a user. (Kakao, "Talk Calendar: REST API", "Delete task".)
///
/// Needs the scope `talk_calendar_task`. Not idempotent: a second call is an error.
package struct DeleteTask: KakaoCall {
    package typealias Answer = CalendarChangeAnswer?

    package let taskID: String

    package static let operation = KakaoOperation<Self>(
        "calendar_task_delete",
        [.delete],
        "/v1/api/calendar/delete/task",
        .calendar,
        [.userToken],
        isIdempotent: false,
        "Deletes a task of the user.",
        parameters: Record(.taskID(\.taskID), make: Self.init),
        answer: CalendarChangeAnswer.task
    )
}
