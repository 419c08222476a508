package import KakaoAPI

/// A simulated failure at Kakao, requested by a test.
package struct Fault: Sendable, Equatable {
    /// The kind of failure.
    package enum Kind: String, Sendable, CaseIterable {
        /// A response with ``Fault/status``. It has Kakao's ``Fault/code``, or no JSON, like a gateway's.
        case status
        /// Something else responds in Kakao's place: ``Fault/status`` (403) with the ``Fault/page``.
        case anotherHost = "another_host"
        /// The response is delayed by ``Fault/milliseconds``; the request is executed at once.
        case latency
        /// The connection is closed after the head of the request, before its body is read.
        case dropBeforeBody = "drop_before_body"
        /// The connection is closed without a response after the request has been read.
        case dropAfterBody = "drop_after_body"
        /// Kakao is down. Each connection is closed at its first request; if ``Fault/status`` is set, it is the
        /// response.
        case down
        /// A message of KakaoTalk does not reach a ``Fault/share`` of its receivers, with Kakao's ``Fault/code``.
        case receivers
    }

    /// Something that a request does, after which a fault strikes. The request has been executed then.
    package enum Event: String, Sendable, CaseIterable {
        /// A refresh superseded its refresh token by another one.
        case rotated
    }

    /// The affected path, or `*` for all paths. `/sandbox/*` is never affected.
    package var path = "*"
    package var kind: Kind
    /// The status of the response, 200 to 599.
    package var status: Int?
    /// Kakao's code in the body of the response. Without it and without ``oauthError``, the response has no JSON, as from
    /// a gateway.
    package var code: Int?
    /// The error of the authorization server in the body of the response.
    package var oauthError: OAuthError?
    /// `msg` or `error_description` of the response.
    package var message = "a fault of the sandbox"
    /// `Retry-After` of the response, in seconds.
    package var retryAfterSeconds: Int?
    /// The length of the body of the response, if it has no JSON: up to 16 MiB.
    package var bodyBytes: Int?
    /// The content of the response of ``Kind/anotherHost``.
    package var page = ForeignPage()
    /// The delay of ``Kind/latency``: 0 to 600,000 ms.
    package var milliseconds = 0
    /// The probability, from 0 to 1, that a matching request is affected.
    package var probability = 1.0
    /// The number of requests that the fault affects before it is spent; `nil` for no limit.
    package var times: Int?
    /// The users to which the fault is limited; `nil` for all calls. They are known only after the body has been read.
    package var userIDs: Set<Int64>?
    /// Whether the request is carried out although the caller gets no success response.
    package var isCarriedOut = false
    /// The share of the receivers that ``Kind/receivers`` affects, from 0 to 1: at least one, and with less than 1 not all
    /// of several. Ignored if ``userIDs`` is set.
    package var share = 0.5
    /// The event to which the fault is limited; `nil` for all requests.
    package var when: Event?

    package init(_ kind: Kind) {
        self.kind = kind
    }

    /// Whether the fault strikes before the body is read.
    var isAtHead: Bool {
        switch kind {
        case .down, .dropBeforeBody: true
        case .status, .anotherHost, .latency, .dropAfterBody, .receivers: false
        }
    }

    /// The error response of the fault.
    var refusal: KakaoRefusal {
        let usualStatus =
            switch kind {
            case .down: 503
            case .anotherHost: 403
            case .status, .latency, .dropBeforeBody, .dropAfterBody, .receivers: 500
            }
        return KakaoRefusal(
            status: status ?? usualStatus,
            code: code,
            oauthError: oauthError,
            message: message,
            retryAfterSeconds: retryAfterSeconds,
            bodyBytes: bodyBytes,
            page: kind == .anotherHost ? page : nil
        )
    }
}

/// The page with which another host responds in Kakao's place; a firewall's by default.
package struct ForeignPage: Sendable, Equatable {
    package var contentType = "text/html; charset=utf-8"
    package var body = "<html><head><title>Access Denied</title></head><body><h1>Blocked by policy</h1></body></html>\n"
    /// The header fields `Server` and `Via`; `nil` for none.
    package var server, via: String?

    package init() {}
}
