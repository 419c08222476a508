import EventLoop
package import HTTPServer
import HTTPTypes
import Net

/// A file of a request, in memory.
package struct ReceivedFile: Sendable {
    /// The name of the file as the client states it; `nil` for a file that is the body itself.
    package let name: String?
    /// The media type as the client states it.
    package let contentType: String?
    package var bytes: [UInt8] = []

    /// The limits of the files of a request.
    package struct Limits: Sendable {
        /// The maximum length of a file, in bytes.
        let bytes: Int
        /// The setting of that limit, for error messages.
        let setting: String
        let pace: UploadPace

        package init(bytes: Int, setting: String, pace: UploadPace = UploadPace()) {
            self.bytes = bytes
            self.setting = setting
            self.pace = pace
        }
    }
}

extension Call {
    /// The maximum length of all fields of a form together, in bytes.
    private static let maximumFieldBytes = RequestSize.small

    /// Collects the files of the body in memory, and adds the form's fields to this call.
    ///
    /// The parts may have any order. A part is a file if it has the name of one, or the name of the operation's files.
    ///
    /// - Returns: The files in the order of the body, at least one.
    /// - Throws: ``Problem``: 400 for a malformed form, unknown fields, and for no or too many files; 413 for a file that
    ///   is longer than `limits` allow, at once. ``ProtocolError`` 408 for files that arrive too slowly.
    package mutating func files(
        in body: RequestBody,
        _ limits: ReceivedFile.Limits
    ) async throws -> [ReceivedFile] {
        guard case .files(let declaration) = operation.body else {
            preconditionFailure("\(operation.id) does not declare files")
        }
        // Beyond the files, a form has heads and fields, which have limits of their own.
        let maximum = limits.bytes * declaration.maximumFiles + 4 * Self.maximumFieldBytes
        if case .fixed(let length) = request.head.framing, length > maximum { throw limits.problem }
        var files: [ReceivedFile]
        let start = MonotonicTime.now
        if let contentType = request[.contentType], request.contentType == MultipartParser.mediaType {
            var form: CollectedForm
            do throws(MultipartParser.ParseError) {
                form = CollectedForm(declaration, try MultipartParser(contentType: contentType), limits)
            } catch {
                throw Problem(of: .badRequest, error.reason)
            }
            var length = 0
            for try await piece in body {
                length += piece.count
                guard length <= maximum else { throw limits.problem }
                try limits.checkPace(length, since: start)
                try form.receive(piece)
            }
            try form.finish()
            try add(form.fields)
            files = form.files
        } else {
            var file = ReceivedFile(name: nil, contentType: request.contentType)
            if case .fixed(let length) = request.head.framing { file.bytes.reserveCapacity(min(length, limits.bytes)) }
            for try await piece in body {
                guard file.bytes.count + piece.count <= limits.bytes else { throw limits.problem }
                try limits.checkPace(file.bytes.count + piece.count, since: start)
                file.bytes += piece
            }
            files = [file]
        }
        guard !files.isEmpty else {
            throw Problem.field(declaration.part, "a file", "Send it as the part of the form with that name.")
        }
        return files
    }

    /// A form, as far as it has arrived.
    private struct CollectedForm {
        private let declaration: FileBody
        private let limits: ReceivedFile.Limits
        private var parser: MultipartParser
        private var fieldBytes = 0
        /// The part that is being received.
        private var part: MultipartParser.Part?
        /// The content of the part.
        private var content: [UInt8] = []
        private(set) var fields: [(name: String, value: String)] = []
        private(set) var files: [ReceivedFile] = []

        init(_ declaration: FileBody, _ parser: MultipartParser, _ limits: ReceivedFile.Limits) {
            self.declaration = declaration
            self.parser = parser
            self.limits = limits
        }

        mutating func receive(_ piece: [UInt8]) throws {
            let events: [MultipartParser.Event]
            do throws(MultipartParser.ParseError) {
                events = try parser.receive(piece)
            } catch {
                throw Problem(of: .badRequest, error.reason)
            }
            for event in events { try receive(event) }
        }

        func finish() throws {
            do throws(MultipartParser.ParseError) {
                try parser.finish()
            } catch {
                throw Problem(of: .badRequest, error.reason)
            }
        }

        private mutating func receive(_ event: MultipartParser.Event) throws {
            switch event {
            case .partBegan(let head):
                part = head
                guard isFile(head), files.count == declaration.maximumFiles else { return }
                let number = declaration.maximumFiles
                throw Problem.field(declaration.part, number == 1 ? "one file" : "at most \(number) files")
            case .bytes(let bytes):
                if let part, isFile(part) {
                    guard content.count + bytes.count <= limits.bytes else { throw limits.problem }
                } else {
                    fieldBytes += bytes.count
                    guard fieldBytes <= Call.maximumFieldBytes else {
                        throw Problem(
                            of: .contentTooLarge,
                            "The fields of a form must have at most \(Call.maximumFieldBytes) bytes together."
                        )
                    }
                }
                content += bytes
            case .partEnded:
                guard let part = part.take() else { return }
                let bytes = content
                content = []
                if isFile(part) {
                    files.append(ReceivedFile(name: part.fileName, contentType: part.contentType, bytes: bytes))
                } else {
                    guard let value = String(validating: bytes, as: UTF8.self) else {
                        throw Problem(of: .badRequest, "A field of the form is invalid UTF-8.")
                    }
                    fields.append((part.name, value))
                }
            case .ended:
                break
            }
        }

        private func isFile(_ part: MultipartParser.Part) -> Bool {
            part.fileName != nil || part.name == declaration.part
        }
    }
}

extension ReceivedFile.Limits {
    fileprivate var problem: Problem {
        Problem(of: .contentTooLarge, "A file must have at most \(bytes) bytes (`\(setting)`).")
    }

    /// Throws if an upload that began at `start` has sent too few bytes.
    fileprivate func checkPace(_ received: Int, since start: MonotonicTime) throws(ProtocolError) {
        guard pace.isTooSlow(received, since: start) else { return }
        throw ProtocolError(
            .requestTimeout,
            "Files must arrive at \(pace.bytesPerSecond) bytes a second or faster. Send smaller ones over a slow network."
        )
    }
}
