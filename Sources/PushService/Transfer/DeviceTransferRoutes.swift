internal import EventLoop
internal import FoundationEssentials
internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import Postgres

/// `POST /v1/devices/import` and `GET /v1/devices/export`: the transfer of all devices from or to another system.
struct DeviceTransferRoutes: Sendable {
    /// The maximum number of concurrent imports to a server. An import may have any length.
    static let maximumImports = 1
    /// The number of bytes that are sent to PostgreSQL at a time.
    private static let bytesAtATime = 64 * 1024
    /// The number of devices that are read at a time, of some hundred bytes each.
    private static let pageSize = 500

    let imports: DeviceImportStore
    let exports: DeviceExportStore
    let uploads: UploadLimit
    /// Wakes the worker that schedules the registration of imported devices at Kakao.
    let importSignal: Signal

    func add(to router: inout ServiceRouter) {
        router.on(.post, "/v1/devices/import", .operator(.devices), streaming: importDevices)
        router.on(.get, "/v1/devices/export", .operator([.read, .devices]), exportDevices)
    }

    // MARK: Import

    /// Imports the devices in the body. Responds with 200 and the counts of the result once all lines are applied.
    private func importDevices(_ request: Request, _ body: RequestBody) async throws -> Response {
        guard let format = TransferFormat(contentType: request.contentType) else {
            throw Problem(
                .unsupportedMediaType,
                "Unsupported Content-Type. Allowed: application/x-ndjson or text/csv, one device a line."
            )
        }
        guard uploads.take() else {
            throw Problem(
                .serviceUnavailable,
                kind: "too-many-uploads",
                "This server accepts one import at a time. Try again.",
                headerFields: [.retryAfter: "30"]
            )
        }
        // Devices that were applied before a failure are registered at Kakao as well.
        defer {
            uploads.release()
            importSignal.send()
        }
        let result = try await imports.importDevices { try await copy(body, format, to: $0) }
        var json = JSONWriter()
        json.object { json in
            json.member("lines", result.lines)
            json.member("created", result.created)
            json.member("updated", result.updated)
            json.member("unchanged", result.unchanged)
            json.member("displaced", result.displaced)
        }
        return .json(json.bytes)
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
        rows.end()
        try await writer.write(rows.take())
    }

    private static func badLines(_ lines: [DeviceLines.BadLine]) -> Problem {
        let list = lines.map { "\($0.number) (\($0.reason))" }.joined(separator: ", ")
        return Problem(
            .badRequest,
            kind: "invalid-lines",
            "Nothing was changed. The first invalid lines: \(list).",
            members: [
                "lines": .array(lines.map { .integer($0.number) }),
                "reasons": .array(lines.map { .string($0.reason) }),
            ]
        )
    }

    // MARK: Export

    /// Exports all devices that are not withdrawn, as fast as the client reads them.
    ///
    /// The key needs two scopes: `devices` for the tokens, and `read` for the list of all users.
    private func exportDevices(_ request: Request) async throws -> Response {
        let format = try TransferFormat(askedFor: request)
        // The first page is read before the response begins, so that an unavailable database is still reported by its
        // status.
        let first = try await exports.devices(after: nil, limit: Self.pageSize)
        return Response(
            .ok,
            contentType: "\(format.contentType);charset=UTF-8",
            headerFields: [.cacheControl: "no-store"]
        ) { [exports] writer in
            var bytes: [UInt8] = []
            TransferredDevice.writeHeader(format, to: &bytes)
            var page = first
            while true {
                for device in page { device.write(format, to: &bytes) }
                try await writer.write(bytes)
                bytes.removeAll(keepingCapacity: true)
                guard page.count == Self.pageSize, let last = page.last else { return }
                page = try await exports.devices(after: last.registration.key, limit: Self.pageSize)
            }
        }
    }
}
