package import EventLoop

/// The reason why a record was not appended.
package enum JournalError: Error, Sendable, CustomStringConvertible {
    /// The journal has been closed.
    case closed
    /// The directory has reached its size limit.
    case full
    /// Too many bytes already wait for the disk.
    case overloaded
    /// The record is longer than the maximum payload or a whole file.
    case tooLarge
    /// A system call failed.
    case system(SystemError)

    package var description: String {
        switch self {
        case .closed: "The journal is closed."
        case .full: "The journal has reached its size limit."
        case .overloaded: "Too many records wait to be written to the journal's disk."
        case .tooLarge: "The record is larger than the journal accepts."
        case .system(let error): "The journal could not be written: \(error)"
        }
    }
}
