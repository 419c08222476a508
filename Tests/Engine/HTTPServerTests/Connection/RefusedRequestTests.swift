import HTTPTypes
import Net
import Testing

@testable import HTTPServer

@Suite("Refused requests", .timeLimit(.minutes(1)))
struct RefusedRequestTests {
    /// A request with exactly one fault.
    struct Refused: CustomTestStringConvertible {
        let status: Int
        let bytes: [UInt8]

        init(_ status: Int, _ text: String) {
            self.status = status
            bytes = Array(text.utf8)
        }

        var testDescription: String { "\(status) \(String(decoding: bytes, as: UTF8.self).debugDescription)" }
    }

    /// The limits of every case in this suite. They are small, so that few bytes exceed them.
    static let limits: HeadLimits = {
        var limits = HeadLimits()
        limits.headerBytes = 200
        limits.targetBytes = 50
        limits.fields = 5
        return limits
    }()
    static let maximumBodyBytes = 20

    static let fields = "HTTP/1.1\r\nHost: a\r\n"

    static let requestLines = [
        Refused(400, " GET / \(fields)\r\n"),
        Refused(400, "GET  / \(fields)\r\n"),
        Refused(400, "GET /  \(fields)\r\n"),
        Refused(400, "GET\t/ \(fields)\r\n"),
        Refused(400, "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"),
        Refused(400, "GET /a b \(fields)\r\n"),
        Refused(400, "GET\r\n\r\n"),
        Refused(400, "GET /\r\n\r\n"),
        Refused(400, "GET / \r\nHost: a\r\n\r\n"),
        Refused(400, "GET / FOO\r\nHost: a\r\n\r\n"),
        Refused(400, "GET / HTTP/1\r\nHost: a\r\n\r\n"),
        Refused(400, "GET / HTTP/1,1\r\nHost: a\r\n\r\n"),
        Refused(400, "GET / HTTP/11.1\r\nHost: a\r\n\r\n"),
        Refused(400, "GET / HTTP/1.10\r\nHost: a\r\n\r\n"),
        Refused(400, "GET / HTTP/+.1\r\nHost: a\r\n\r\n"),
        Refused(400, "GET / http/1.1\r\nHost: a\r\n\r\n"),
        Refused(505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
        Refused(505, "GET / HTTP/1.2\r\nHost: a\r\n\r\n"),
        Refused(505, "GET / HTTP/0.9\r\n\r\n"),
        Refused(505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        Refused(501, "BREW / \(fields)\r\n"),
        Refused(501, "get / \(fields)\r\n"),
        Refused(501, "TRACE / \(fields)\r\n"),
        Refused(501, "CONNECT a:443 \(fields)\r\n"),
        Refused(400, "G@T / \(fields)\r\n"),
        Refused(400, "GÉT / \(fields)\r\n"),
        Refused(400, "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}"),
        Refused(400, "\r\n\r\nGET / \(fields)\r\n"),
        Refused(400, "GET a \(fields)\r\n"),
        Refused(400, "GET * \(fields)\r\n"),
        Refused(400, "GET /a#b \(fields)\r\n"),
        Refused(400, "GET /\u{7F} \(fields)\r\n"),
        Refused(400, "GET /\u{0} \(fields)\r\n"),
        Refused(400, "GET /카카오 \(fields)\r\n"),
        Refused(400, "GET ftp://h/ \(fields)\r\n"),
        Refused(400, "GET http:/h/ \(fields)\r\n"),
        Refused(400, "GET http:///a \(fields)\r\n"),
        Refused(400, "GET http://u:p@h/ \(fields)\r\n"),
        Refused(400, "GET http://h:x/ \(fields)\r\n"),
    ]

    static let lines = [
        Refused(400, "GET / HTTP/1.1\nHost: a\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\r\nHost: a\n\r\n"),
        Refused(400, "GET / \(fields)\n"),
        Refused(400, "\nGET / \(fields)\r\n"),
        Refused(400, "\rGET / \(fields)\r\n"),
        Refused(400, "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\rX: b\r\nHost: a\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n"),
        Refused(400, "GET / \(fields)X: a\rY: b\r\n\r\n"),
        Refused(400, "GET / \(fields)X: a\u{0}b\r\n\r\n"),
        Refused(400, "GET / \(fields)X: a\u{1}b\r\n\r\n"),
        Refused(400, "GET / \(fields)X: a\u{7F}b\r\n\r\n"),
        Refused(400, "GET / \(fields)X : a\r\n\r\n"),
        Refused(400, "GET / \(fields)X\t: a\r\n\r\n"),
        Refused(400, "GET / \(fields) X: a\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
        Refused(400, "GET / \(fields)X: a\r\n b\r\n\r\n"),
        Refused(400, "GET / \(fields)X: a\r\n\tb\r\n\r\n"),
        Refused(400, "GET / \(fields)X\r\n\r\n"),
        Refused(400, "GET / \(fields): a\r\n\r\n"),
        Refused(400, "GET / \(fields)X(Y): a\r\n\r\n"),
        Refused(400, "GET / \(fields)X\u{0}: a\r\n\r\n"),
        Refused(400, "GET / \(fields)카: a\r\n\r\n"),
    ]

    static let hosts = [
        Refused(400, "GET / HTTP/1.1\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\r\nX-Host: a\r\n\r\n"),
        Refused(400, "GET / \(fields)Host: a\r\n\r\n"),
        Refused(400, "GET / \(fields)HOST: b\r\n\r\n"),
        Refused(400, "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\r\nHost:\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\r\nHost: \"a\"\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\r\nHost: a?\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\r\nHost: a#\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\r\nHost: a:+1\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\r\nHost: a:123456\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\r\nHost: :80\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\r\nHost: []\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n"),
        Refused(400, "GET / HTTP/1.1\r\nHost: [g::1]\r\n\r\n"),
    ]

    static let lengths =
        ["+5", "-5", "0x5", "5 5", "5;", "5,5", "5, 5", "", "1e1", "５", "9223372036854775808", "18446744073709551621"]
        .map { Refused(400, "POST / \(fields)Content-Length: \($0)\r\n\r\nhello") } + [
            Refused(400, "POST / \(fields)Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
            Refused(400, "POST / \(fields)Content-Length: 5\r\ncontent-length: 6\r\n\r\nhello"),
            Refused(400, "POST / \(fields)Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            Refused(400, "POST / \(fields)Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
            Refused(400, "POST / \(fields)Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            Refused(400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            Refused(400, "POST / \(fields)Transfer-Encoding: \u{B}chunked\r\n\r\n0\r\n\r\n"),
            Refused(400, "POST / \(fields)Transfer-Encoding\u{0}: chunked\r\n\r\n0\r\n\r\n"),
        ]
        + [
            "", "gzip", "identity", "xchunked", "chunked;q=1", "gzip, chunked", "chunked, gzip", "chunked, chunked",
            "\"chunked\"",
        ]
        .map { Refused(501, "POST / \(fields)Transfer-Encoding: \($0)\r\n\r\n0\r\n\r\n") }

    static let chunks = [
        "+5\r\nhello\r\n", "-5\r\nhello\r\n", "0x5\r\nhello\r\n", " 5\r\nhello\r\n", "5 \r\nhello\r\n", "\r\nhello\r\n",
        "g\r\n", ";a\r\nhello\r\n", "5\nhello\r\n", "5\r\r\nhello\r\n", "5\rhello", "5;a\nhello\r\n",
        "5;\u{0}\r\nhello\r\n",
        "5;a\rb\r\nhello\r\n", "5\r\nhello6\r\n", "5\r\nhello\n", "5\r\nhello\rx", "5\r\nhell\r\n0\r\n\r\n",
        "0000000000000005\r\nhello\r\n", "fffffffffffffffff\r\n", "8000000000000000\r\n", "0\r\n\n", "0\r\n\rx",
        "0\r\n X: a\r\n\r\n",
        "0\r\n: a\r\n\r\n", "0\r\nX: a\n\r\n", "0\r\nX: \u{0}\r\n\r\n", "0\n\n",
    ].map { Refused(400, "POST / \(fields)Transfer-Encoding: chunked\r\n\r\n" + $0) }

    static let limited = [
        Refused(414, "GET /\(String(repeating: "a", count: 50)) \(fields)\r\n"),
        Refused(414, "GET /\(String(repeating: "a", count: 200)) \(fields)\r\n"),
        Refused(414, "GET /\(String(repeating: "a", count: 200))"),
        Refused(414, String(repeating: "A", count: 201)),
        Refused(431, "GET / \(fields)X: \(String(repeating: "a", count: 200))\r\n\r\n"),
        Refused(431, "GET / \(fields)X: \(String(repeating: "a", count: 200))"),
        Refused(431, "GET / \(fields)" + String(repeating: "X:\r\n", count: 5) + "\r\n"),
        Refused(413, "POST / \(fields)Content-Length: 21\r\n\r\n"),
        Refused(413, "POST / \(fields)Content-Length: 9223372036854775807\r\n\r\n"),
        Refused(413, "POST / \(fields)Content-Length: 21\r\nExpect: 100-continue\r\n\r\n"),
        Refused(413, "POST / \(fields)Transfer-Encoding: chunked\r\n\r\n15\r\n\(String(repeating: "a", count: 21))"),
        Refused(
            413,
            "POST / \(fields)Transfer-Encoding: chunked\r\n\r\n"
                + String(repeating: "1\r\na\r\n", count: 21)
        ),
        Refused(417, "POST / \(fields)Expect: 200-ok\r\nContent-Length: 1\r\n\r\na"),
        Refused(417, "GET / \(fields)Expect: 100-continue, x\r\n\r\n"),
    ]

    @Test("The status does not depend on where the bytes are cut", arguments: requestLines + lines + hosts)
    func heads(refused: Refused) {
        check(refused)
    }

    @Test("Ambiguous or malformed framing is refused", arguments: lengths + chunks)
    func framing(refused: Refused) {
        check(refused)
    }

    @Test("A request beyond a limit is refused with the status of that limit", arguments: limited)
    func limits(refused: Refused) {
        check(refused)
    }

    private func check(_ refused: Refused) {
        let outcomes = deliveries(of: refused.bytes).map {
            Dialogue.events($0, limits: Self.limits, maximumBodyBytes: Self.maximumBodyBytes)
        }
        #expect(Set(outcomes) == [["\(refused.status)", "linger"]])
    }
}
