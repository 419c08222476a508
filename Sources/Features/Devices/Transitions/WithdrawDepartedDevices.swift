import Postgres
import ServiceKit

/// Withdraws the devices of users who have left the app, except those that were registered since. Returns their number.
struct WithdrawDepartedDevices: PostgresStatement {
    static let sql = SQL.sumOverDepartures("withdraw_departed_devices")

    let departures: [UserEvent]

    var parameters: [PostgresValue] { departures.parameters }

    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}
