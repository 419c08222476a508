import Schemas

/// The settings of a calendar besides its name.
package struct CalendarOptions: Sendable {
    /// The name of a color, such as `RED` or `ROYAL_BLUE`.
    package var color: String?
    /// The minutes before an event at which the user is reminded.
    package var reminder: Int64?
    /// The same for an event of whole days.
    package var reminderAllDay: Int64?

    package init(color: String? = nil, reminder: Int64? = nil, reminderAllDay: Int64? = nil) {
        self.color = color
        self.reminder = reminder
        self.reminderAllDay = reminderAllDay
    }

    static let record = Record<CalendarOptions>(
        .optional("color", \.color, .text, "The name of a color, such as `RED`."),
        .optional("reminder", \.reminder, .minutes, "The minutes before an event at which the user is reminded."),
        .optional("reminder_all_day", \.reminderAllDay, .minutes, "The same for an event of whole days."),
        make: CalendarOptions.init
    )
}
