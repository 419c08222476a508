import Endpoints
import EventLoop
import FoundationEssentials
import HTTPServer
import HTTPTypes
import JSON
import Postgres
import Schemas

/// `POST /v1/devices/import` and `GET /v1/devices/export`: the transfer of all devices from or to another system.
struct DeviceTransferRoutes: RouteCollection {
    static let title = "Transfer of devices"
    static let operations = [importing, exporting]

    /// The maximum number of concurrent imports to a server. An import may have any length.
    static let maximumImports = 1
    /// The number of bytes that are sent to PostgreSQL at a time.
    private static let bytesAtATime = 64 * 1024
    /// The number of devices that are read at a time, of some hundred bytes each.
    private static let pageSize = 500

    let imports: DeviceImportStore
    let pool: PostgresPool
    let uploads: ConcurrencyLimit
    /// Wakes the worker that schedules the registration of imported devices at Kakao.
    let importSignal: Signal

    // MARK: Import

    private static let importing = Operation(
        OperationDeclaration(
            "importDevices",
            .post,
            "/v1/devices/import",
            .operator(.devices),
            "Imports devices from another system, of any number.",
            body: .media(TransferFormat.allCases.map(\.contentType), "One device a line."),
            answers: [.json(.ok, DeviceImportStore.Result.shape, "All lines are applied.")],
            problems: [.invalidLines, .tooManyUploads],
            auditing: .ahead { _ in .server }
        ),
        streaming: importDevices
    )

    /// Imports the devices in the body. Responds with 200 and the counts of the result once all lines are applied.
    @Sendable private func importDevices(_ call: Call, _ body: RequestBody) async throws -> Response {
        guard let format = TransferFormat(contentType: call.request.contentType) else {
            preconditionFailure("the declaration admits the types of the formats only")
        }
        try uploads.acquireUpload("one import at a time")
        // Devices that were applied before a failure are registered at Kakao as well.
        defer {
            uploads.release()
            importSignal.send()
        }
        let result = try await imports.importDevices { try await copy(body, format, to: $0) }
        return .json(DeviceImportStore.Result.shape.json(result))
    }

    /// Sends the devices in the body to PostgreSQL.
    ///
    /// - Throws: ``Problem`` 400 for lines that are not devices.
    private func copy(_ body: RequestBody, _ format: TransferFormat, to writer: PostgresCopyWriter) async throws {
        let now = Date()
        var lines = DeviceLines(format, now: now)
        var rows = PostgresCopyRows()
        func append(_ device: TransferredDevice, _ line: Int64) throws(PostgresError) {
            try imports.append(device, line: line, now: now, to: &rows)
        }
        for try await piece in body {
            try lines.read(piece, append)
            if lines.isHopeless { break }
            // After the first bad line, no more rows are sent.
            if !lines.badLines.isEmpty {
                _ = rows.take()
            } else if rows.bytes.count >= Self.bytesAtATime {
                try await writer.write(rows.take())
            }
        }
        if !lines.isHopeless { try lines.end(append) }
        guard lines.badLines.isEmpty else { throw Self.badLines(lines.badLines) }
        rows.appendTrailer()
        try await writer.write(rows.take())
    }

    /// Returns the problem of invalid lines, which names each reason once, with its lines.
    static func badLines(_ lines: [DeviceLines.BadLine]) -> Problem {
        var faults: [(reason: String, lines: [Int64])] = []
        for line in lines {
            if let index = faults.firstIndex(where: { $0.reason == line.reason }) {
                faults[index].lines.append(line.number)
            } else {
                faults.append((line.reason, [line.number]))
            }
        }
        let list = faults.map { fault in
            let numbers = fault.lines.map(String.init).joined(separator: ", ")
            return "\(fault.lines.count == 1 ? "line" : "lines") \(numbers): \(fault.reason)"
        }
        return Problem(
            of: .invalidLines,
            "Nothing was changed. The first invalid lines: \(list.joined(separator: "; ")).",
            members: [
                "lines": .array(lines.map { .integer($0.number) }),
                "reasons": .array(
                    faults.map { fault in
                        ["reason": .string(fault.reason), "lines": .array(fault.lines.map { .integer($0) })]
                    }
                ),
            ]
        )
    }

    // MARK: Export

    private static let format = Field.optional(
        "format",
        Kind<TransferFormat>.choice,
        "The format. Without it, `Accept` decides; without that, it is `ndjson`."
    )

    private static let exporting = Operation(
        "exportDevices",
        .get,
        "/v1/devices/export",
        .operator(.export),
        "Exports all devices with their push tokens.",
        query: [format],
        answers: [.media(.ok, TransferFormat.allCases.map(\.contentType), "One device a line.")],
        auditing: .download { _ in .server },
        handler: exportDevices
    )

    /// Exports all devices that are not withdrawn, as fast as the client reads them.
    @Sendable private func exportDevices(_ call: Call) async throws -> Response {
        let format = try call[Self.format] ?? TransferFormat(accepted: call.request[.accept]) ?? .ndjson
        var header: [UInt8] = []
        TransferredDevice.writeHeader(format, to: &header)
        return try await .export(format.contentType, header: header) { [pool] (last: TransferredDevice?) in
            let list = ListDevicesForExport(after: last?.registration.key, limit: Self.pageSize)
            return try await pool.read(list, mayBeBehind: true)
        } write: { device, bytes in
            device.write(format, to: &bytes)
        }
    }
}
