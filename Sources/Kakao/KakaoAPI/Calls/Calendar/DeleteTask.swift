import HTTPTypes
import Schemas

/// Deletes a task of a user. (Kakao, "Talk Calendar: REST API", "Delete task".)
///
/// Needs the scope `talk_calendar_task`.
package struct DeleteTask: KakaoCall {
    package typealias Answer = CalendarIDAnswer?

    package let taskID: String

    package static let operation = KakaoOperation<Self>(
        "calendar_task_delete",
        [.delete],
        "/v1/api/calendar/delete/task",
        .calendar,
        [.userToken],
        "Deletes a task of the user.",
        parameters: Record(.taskID(\.taskID), make: Self.init),
        answer: CalendarIDAnswer.changedTask
    )
}
