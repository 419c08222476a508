internal import CLibcurl

extension Transfer {
    /// An error of this transfer, as far as it has come.
    func failure(_ code: HTTPClientError.Code, _ message: String) -> HTTPClientError {
        HTTPClientError(
            code: code,
            bodyBytesLeft: mayHaveLeft,
            message: origin.map { "\($0.text): \(message)" } ?? message
        )
    }

    /// What libcurl's result means to the caller. The transfer still has its handle.
    func outcome(_ result: CURLcode) -> Result<HTTPClientResponse, HTTPClientError> {
        guard case .running(let handle) = state else {
            return .failure(failure(.internalFailure, "libcurl ended a transfer that it did not have"))
        }
        guard result == CURLE_OK else { return .failure(failure(result, handle)) }
        let status = handle.status
        guard (200...999).contains(status) else {
            return .failure(failure(.badResponse, "a response without a status"))
        }
        return .success(makeResponse(status: status))
    }

    private func failure(_ result: CURLcode, _ handle: EasyHandle) -> HTTPClientError {
        let text = String(cString: curl_easy_strerror(result))
        // A header line longer than libcurl takes is reported as a want of memory.
        if isResponseTooLarge || (result == CURLE_OUT_OF_MEMORY && hasBegunHead) {
            return failure(.responseTooLarge, "the response is longer than is allowed")
        }
        let code = Self.code(result)
        switch code {
        case .cannotResolve, .cannotConnect, .tls, .timedOut:
            // A request that was sent, and was to be sent again: its connection is what it lost.
            if mayHaveLeft, code != .timedOut { return failure(.connectionLost, "the connection broke") }
            return failure(code, mayHaveLeft ? text : handle.connectionErrorText ?? text)
        default:
            return failure(code, text)
        }
    }

    /// libcurl's results that a plain request can have (libcurl-errors(3)).
    private static func code(_ result: CURLcode) -> HTTPClientError.Code {
        switch result {
        case CURLE_URL_MALFORMAT:
            .invalidRequest
        case CURLE_COULDNT_RESOLVE_HOST:
            .cannotResolve
        case CURLE_COULDNT_CONNECT:
            .cannotConnect
        case CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CERTPROBLEM,
            CURLE_SSL_CIPHER, CURLE_SSL_ISSUER_ERROR, CURLE_SSL_INVALIDCERTSTATUS:
            .tls
        case CURLE_OPERATION_TIMEDOUT:
            .timedOut
        // The last two are how a second attempt ends that was refused.
        case CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_GOT_NOTHING, CURLE_PARTIAL_FILE, CURLE_SEND_FAIL_REWIND,
            CURLE_ABORTED_BY_CALLBACK:
            .connectionLost
        // HTTP/0.9, in the first.
        case CURLE_UNSUPPORTED_PROTOCOL, CURLE_WEIRD_SERVER_REPLY, CURLE_BAD_CONTENT_ENCODING,
            CURLE_HTTP_RETURNED_ERROR:
            .badResponse
        default:
            .internalFailure
        }
    }
}
