import EventLoop
import Glibc
import Settings

/// The lock of a development server on its folder, held until this process ends, however it ends.
final class DevLock: Sendable {
    private let descriptor: FileDescriptor

    /// Locks a folder.
    ///
    /// - Throws: ``SettingsError`` that names the process and the addresses of the development server that has the lock.
    init(directory: String) throws {
        let path = "\(directory)/dev.lock"
        let number = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard number >= 0 else { throw SettingsError(place: path, message: "The file cannot be written.") }
        descriptor = FileDescriptor(owning: number)
        guard flock(number, LOCK_EX | LOCK_NB) == 0 else {
            let text = String(decoding: FileContents.read(path) ?? [], as: UTF8.self)
            throw Self.isTaken(directory, text.split(separator: "\n").map(String.init))
        }
        try write([])
    }

    /// Stores the addresses, for the message of a second development server.
    func write(server: String, sandbox: String) throws {
        try write([server, sandbox])
    }

    private func write(_ addresses: [String]) throws {
        let text = Array((["\(getpid())"] + addresses).map { "\($0)\n" }.joined().utf8)
        guard ftruncate(descriptor.rawValue, 0) == 0, pwrite(descriptor.rawValue, text, text.count, 0) == text.count
        else { throw SystemError(call: "write dev.lock") }
    }

    /// - Parameter lines: The process and, once it is ready, the addresses.
    private static func isTaken(_ directory: String, _ lines: [String]) -> SettingsError {
        let process = lines.first.map { " as process \($0)" } ?? ""
        let addresses =
            lines.count == 3 ? ", with the server at \(lines[1]) and the sandbox at \(lines[2])" : ", and is starting"
        return SettingsError(
            place: directory,
            message:
                "push-server dev already runs here\(process)\(addresses). Use it with . \(directory)/dev.env, stop it, or choose another folder with --directory."
        )
    }
}
