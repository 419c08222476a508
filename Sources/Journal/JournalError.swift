package import EventLoop

/// Why a record was not appended.
package enum JournalError: Error, Sendable, CustomStringConvertible {
    /// The journal has been closed.
    case closed
    /// The directory has reached its size limit.
    case full
    /// Too many bytes wait for the disk.
    case overloaded
    /// The record is longer than a file may hold.
    case tooLarge
    /// The disk failed.
    case system(SystemError)

    package var description: String {
        switch self {
        case .closed: "The journal is closed."
        case .full: "The journal has reached its size limit."
        case .overloaded: "Too many records wait for the journal's disk."
        case .tooLarge: "The record is too large for the journal."
        case .system(let error): "The journal's disk failed: \(error)"
        }
    }
}
