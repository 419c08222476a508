import ArgumentParser
import EventLoop
import FoundationEssentials
import Glibc
import HTTPServer
import Logging
import Net
import UnixSignals

@main
struct HTTPBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "http-benchmark",
        abstract: "The HTTP server and client without a database, for scripts/bench.",
        subcommands: [ServeCommand.self, ConnectCommand.self],
        defaultSubcommand: ServeCommand.self
    )
}

/// Serves two routes.
struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "The HTTP server without a database, for scripts/bench http.",
        discussion: "Prints the port on standard output once it listens. Exits on SIGTERM or SIGINT."
    )

    @Option(help: "The port to listen on; 0 for any free port.")
    var port: UInt16 = 0

    @Option(help: "A certificate chain in PEM form, to serve HTTPS.")
    var certificateFile: String?

    @Option(help: "The certificate's private key in PEM form.")
    var keyFile: String?

    @Flag(help: "Listen on one socket for all loops, as with one that a service manager passes on.")
    var oneSocket = false

    func validate() throws {
        guard (certificateFile == nil) == (keyFile == nil) else {
            throw ValidationError("Specify both --certificate-file and --key-file, or neither.")
        }
    }

    // Not on the main actor: tasks started from it are slow.
    @concurrent
    func run() async throws {
        var logger = Logger(label: "http-benchmark", factory: { StreamLogHandler.standardError(label: $0) })
        logger.logLevel = .notice
        var settings = HTTPServerSettings()
        settings.port = Int(port)
        settings.tls = try tls()
        var router = Router()
        BenchmarkRoutes().add(to: &router)
        // The push server's middleware, except for the readiness gate that its database opens.
        let middleware: [any Middleware] = [AccessLog(logger: logger)]
        let application = Application(router: router, middleware: middleware, logger: logger)
        let loops = try EventLoopGroup()
        let sockets =
            oneSocket ? [try FileDescriptor.listening(on: settings.host, port: settings.port).release()] : []
        let server = try HTTPServer(settings: settings, sockets: sockets, loops: loops, logger: logger) { _ in
            application
        }
        server.start()
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint)
        print(server.port)
        // Another process may read the line from a pipe.
        fflush(nil)
        for await _ in signals { break }
        await server.shutdown(within: .seconds(1))
        loops.shutdown()
    }

    private func tls() throws -> TLSContext? {
        guard let certificateFile, let keyFile else { return nil }
        func contents(_ path: String) throws -> [UInt8] {
            guard let data = FileManager.default.contents(atPath: path) else {
                throw ValidationError("The file \(path) cannot be read.")
            }
            return [UInt8](data)
        }
        return try TLSContext(certificateChain: contents(certificateFile), privateKey: contents(keyFile))
    }
}
