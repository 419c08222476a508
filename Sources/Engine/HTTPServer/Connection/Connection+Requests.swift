import EventLoop
import HTTPTypes
import Logging
import Net

/// The handling of a request, from its head to its response.
extension Connection {
    // MARK: From head to handler

    func decide(_ head: RequestHead) {
        let request = Request(
            loop: loop,
            head: head,
            remoteAddress: remoteAddress,
            clientAddress: clientAddress(of: head),
            proxies: proxies,
            isSecure: tls != nil
        )
        switch server.application.decide(request) {
        case .respond(let response):
            respond(response, to: request)
        case .abort:
            close()
        case .handle(let route, let check):
            // A request that is too large is rejected without the check.
            if let check, !isTooLarge(head, for: route) {
                runCheck(check, of: request, for: route)
            } else {
                readBody(of: request, for: route)
            }
        }
    }

    /// Returns the client's address; the proxy's, which is counted and logged, if the proxy reports none that can be read.
    private func clientAddress(of head: RequestHead) -> SocketAddress {
        guard let proxies else { return remoteAddress }
        let field = server.settings.forwardedField
        let value = head[field.name]
        if let address = proxies.client(value, in: field, through: remoteAddress) { return address }
        server.recordUnreadableAddress(value ?? "", in: field, from: remoteAddress)
        return remoteAddress
    }

    /// Runs the asynchronous part of a route's check. The connection reads nothing of the body meanwhile.
    private func runCheck(_ check: @escaping PendingCheck, of request: Request, for route: Route) {
        self.request = request
        task = Task(executorPreference: loop) { [self] in
            var error: (any Error)?
            do { try await check() } catch let thrown { error = thrown }
            let rejection = error.map { response(to: $0, of: request) }
            resume {
                // The request may have been refused meanwhile, for lack of memory.
                guard self.request.take() != nil else { return }
                switch rejection {
                case nil: readBody(of: request, for: route)
                case .some(let response?): respond(response, to: request)
                case .some(nil): close()
                }
            }
        }
    }

    private func isTooLarge(_ head: RequestHead, for route: Route) -> Bool {
        guard case .fixed(let length) = head.framing else { return false }
        return length > bodyLimit(of: route)
    }

    private func bodyLimit(of route: Route) -> Int {
        if case .streaming(let limit, _) = route.handler { return limit }
        return min(route.bodyLimit ?? .max, server.settings.maximumBodyBytes)
    }

    /// Starts to read the body of an admitted request, either for the handler to stream or before the handler is
    /// called.
    private func readBody(of request: Request, for route: Route) {
        if route.check != nil, request.exemptsConnection { server.exempt(self) }
        do throws(ProtocolError) {
            if case .streaming(let limit, let answer) = route.handler {
                try state.readBody(upTo: limit, isStreamed: true)
                stream(request, to: answer)
            } else {
                try state.readBody(upTo: bodyLimit(of: route), isStreamed: false)
                self.request = request
                handler = route.handler
                sendContinue()
            }
        } catch {
            respond(Problem(error).response, to: request)
        }
    }

    private func sendContinue() {
        if state.sendsContinue() { write { $0 += ResponseEncoder.continueResponse } }
    }

    func receiveBody(_ run: UnsafeRawBufferPointer) {
        if let bodyBuffer {
            bodyBuffer.append(run)
        } else {
            request?.body.append(contentsOf: run)
            bodyBytes += run.count
        }
    }

    func endBody() {
        bodyBuffer?.finish(.success(()))
        bodyBuffer = nil
    }

    /// Calls the handler; or lets the request of a proxy's client wait for its turn. The whole request has been received.
    func handle() {
        if proxies != nil, !loop.hasTime, let request, !request.exemptsConnection {
            waitForTurn(of: request.clientAddress.network)
        } else {
            callHandler()
        }
    }

    /// Calls the handler of a complete request, if it was not refused.
    func callHandler() {
        guard let request = request.take(), let handler = handler.take() else { return }
        switch handler {
        case .immediate(let answer):
            do {
                respond(try answer(request), to: request)
            } catch is ConnectionAbort {
                close()
            } catch {
                respond(server.application.response(to: error, of: request), to: request)
            }
        case .task(let answer):
            run(request) { try await answer(request) }
        case .streaming:
            break
        }
    }

    /// Calls a handler that streams the body.
    private func stream(
        _ request: Request,
        to handler: @escaping @Sendable (Request, RequestBody) async throws -> Response
    ) {
        let buffer = RequestBodyBuffer(loop: loop) { [self] in
            sendContinue()
            processInput()
            settle()
        }
        bodyBuffer = buffer
        run(request) { try await handler(request, RequestBody(buffer: buffer)) }
    }

    private func run(_ request: Request, _ answer: @escaping @Sendable () async throws -> Response) {
        task = Task(executorPreference: loop) { [self] in
            let response: Response?
            do {
                response = try await answer()
            } catch {
                response = self.response(to: error, of: request)
            }
            resume { if let response { respond(response, to: request) } else { close() } }
        }
        if clientHasLeft { task?.cancel() }
    }

    /// Returns the response to a request whose handler or check threw. Returns `nil` if the connection must be closed
    /// without one.
    private func response(to error: any Error, of request: Request) -> Response? {
        // If the client has gone, the error only reports the cancellation to the handler.
        guard !(error is ConnectionAbort), !Task.isCancelled || error is Problem else { return nil }
        return server.application.response(to: error, of: request)
    }

    /// Continues after a task of a request has ended: runs `body`, then reads on.
    private func resume(_ body: () -> Void) {
        loop.preconditionOnLoop()
        guard isOpen else { return }
        task = nil
        body()
        processInput()
        settle()
    }

    // MARK: Responses

    /// Responds to bytes that were not a valid request, or to a request with an invalid body.
    func refuse(_ error: ProtocolError) {
        handler = nil
        let response = Problem(error).response
        if let request = request.take() {
            respond(response, to: request)
        } else {
            let id = RequestID()
            server.application.recordRefusal(
                Refusal(error: error, remoteAddress: remoteAddress, id: id.text, status: error.status)
            )
            server.requests.record(route: 0, status: error.status.code, milliseconds: 0, problem: response.problem)
            respond(response, Recipient(requestID: id, isHTTP10: false, isHead: false))
        }
    }

    private func respond(_ response: consuming Response, to request: Request) {
        server.application.decorate(&response, for: request)
        server.requests.record(
            route: request.route,
            status: response.status.code,
            milliseconds: loop.now - request.startedAt,
            problem: response.problem,
            reason: response.reason
        )
        let isHead = request.method == .head
        respond(response, Recipient(requestID: request.requestID, isHTTP10: request.head.isHTTP10, isHead: isHead))
    }

    /// The properties of the request that affect how its response is written.
    private struct Recipient {
        let requestID: RequestID
        let isHTTP10: Bool
        let isHead: Bool
    }

    private func respond(_ response: Response, _ recipient: Recipient) {
        guard isOpen, farewell == nil else { return }
        var ending = ResponseEncoder.Ending(omitsBody: recipient.isHead)
        abandonBody()
        bodyBytes = 0
        answers += 1
        restartWait()
        guard let pieces = response.pieces, !ending.omitsBody, response.status.allowsBody else {
            ending.closes = state.closesAfterAnswer
            ending.saysKeepAlive = recipient.isHTTP10 && !ending.closes
            encode(response, ending, recipient.requestID)
            perform(state.answered())
            return
        }
        ending.closes = state.beginAnswer(closing: recipient.isHTTP10)
        ending.isChunked = !recipient.isHTTP10
        encode(response, ending, recipient.requestID)
        writePieces(pieces, isChunked: ending.isChunked)
    }

    private func encode(_ response: Response, _ ending: ResponseEncoder.Ending, _ requestID: RequestID) {
        write { output in
            server.encoder.encode(
                response,
                ending: ending,
                requestID: requestID,
                unixSeconds: server.unixSeconds,
                into: &output
            )
        }
    }

    // MARK: Streamed responses

    private func writePieces(
        _ body: @escaping @Sendable (ResponseBodyWriter) async throws -> Void,
        isChunked: Bool
    ) {
        let writer = ResponseBodyWriter(connection: self, answer: answers, isChunked: isChunked)
        task = Task(executorPreference: loop) { [self] in
            do {
                try await body(writer)
                completeStreamedResponse(isChunked: isChunked)
            } catch {
                if !Task.isCancelled { server.logger.error("Response cut off", metadata: ["error": "\(error)"]) }
                // The end of the connection is the end of a body without chunks: only a reset says that it is incomplete.
                if isChunked { close() } else { reset() }
            }
        }
    }

    /// Writes a piece of the body. Completes `promise` when there is room for the next piece.
    func write(piece: [UInt8], from writer: ResponseBodyWriter, _ promise: Promise<Void>) {
        loop.preconditionOnLoop()
        guard isOpen, farewell == nil, writer.answer == answers, task != nil else {
            promise.complete(.failure(CancellationError()))
            return
        }
        if !piece.isEmpty {
            write { output in
                if writer.isChunked {
                    ResponseEncoder.append(chunk: piece, to: &output)
                } else {
                    output += piece
                }
            }
        }
        if hasRoom {
            promise.complete(.success(()))
        } else {
            waitingWriters.append(promise)
        }
    }

    /// Resumes the suspended writers. The peer has taken everything, or the connection has ended.
    func answerWriters(_ result: Result<Void, any Error>) {
        guard !waitingWriters.isEmpty else { return }
        let writers = waitingWriters
        waitingWriters = []
        for writer in writers { writer.complete(result) }
    }

    private func completeStreamedResponse(isChunked: Bool) {
        loop.preconditionOnLoop()
        guard isOpen else { return }
        task = nil
        if isChunked { write { $0 += ResponseEncoder.lastChunk } }
        restartWait()
        perform(state.answered())
        processInput()
        settle()
    }

    // MARK: End

    /// Cancels the work on the current request. The connection has ended.
    func abandonRequest() {
        task?.cancel()
        task = nil
        request = nil
        handler = nil
        abandonBody()
        answerWriters(.failure(CancellationError()))
    }

    /// Ends the body buffer. The rest of the body will not be read.
    private func abandonBody() {
        bodyBuffer?.finish(.failure(CancellationError()))
        bodyBuffer = nil
    }
}
