import ArgumentParser
import Schemas

/// A user id on the command line.
enum UserArgument {
    static func parse(_ text: String) throws -> Int64 {
        guard let userID = Int64(decimal: text), userID > 0 else {
            throw ValidationError("The id of a user must be an integer from 1 to \(Int64.max).")
        }
        return userID
    }
}
