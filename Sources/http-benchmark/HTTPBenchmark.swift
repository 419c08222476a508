internal import ArgumentParser
internal import EventLoop
internal import FoundationEssentials
internal import Glibc
internal import HTTPServer
internal import Logging
internal import UnixSignals

@main
struct HTTPBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "http-benchmark",
        abstract: "The HTTP engine without a database behind it, for scripts/bench http.",
        discussion: "Prints its port on standard output when it listens. Ends on SIGTERM or SIGINT."
    )

    @Option(help: "The port to listen on; 0 for one that is free.")
    var port: UInt16 = 0

    @Option(help: "A certificate chain in PEM form, to serve HTTPS.")
    var certificateFile: String?

    @Option(help: "The certificate's private key in PEM form.")
    var keyFile: String?

    func validate() throws {
        guard (certificateFile == nil) == (keyFile == nil) else {
            throw ValidationError("--certificate-file and --key-file need each other.")
        }
    }

    // Off the main actor: what a task of the main actor starts would crawl.
    @concurrent
    func run() async throws {
        var logger = Logger(label: "http-benchmark", factory: { StreamLogHandler.standardError(label: $0) })
        logger.logLevel = .notice
        var settings = HTTPServerSettings()
        settings.port = Int(port)
        settings.tls = try tls()
        var router = Router()
        BenchmarkRoutes().add(to: &router)
        // The push server's own, but for the gate that its database opens.
        let middleware: [any Middleware] = [AccessLog(logger: logger)]
        let application = Application(router: router, middleware: middleware, logger: logger)
        let loops = try EventLoopGroup()
        let server = try HTTPServer(settings: settings, loops: loops, logger: logger) { _ in application }
        server.start()
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint)
        print(server.port)
        // Whoever waits for the line may read it from a pipe.
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
