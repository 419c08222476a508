import Net
import Testing

/// The encoding of forms.
@Suite struct FormBodyTests {
    private static func text(_ form: FormBody) -> String {
        String(decoding: form.bytes, as: UTF8.self)
    }

    @Test("Fields keep their order, and a name may come twice")
    func fields() {
        var form = FormBody()
        #expect(form.bytes.isEmpty)
        form.append("uuid", "1")
        form.append("device_id", "")
        form.append("uuid", "2")
        #expect(Self.text(form) == "uuid=1&device_id=&uuid=2")
    }

    @Test(
        "Every byte that is not unreserved is percent-encoded",
        arguments: [
            ("APA91b:x-Y_z.~", "APA91b%3Ax-Y_z.~"),
            ("a b+c&d=e", "a%20b%2Bc%26d%3De"),
            (#"["1","2"]"#, "%5B%221%22%2C%222%22%5D"),
            ("카카오", "%EC%B9%B4%EC%B9%B4%EC%98%A4"),
            ("100%\r\n\0*", "100%25%0D%0A%00%2A"),
        ]
    )
    func encoding(value: String, encoded: String) {
        var form = FormBody()
        form.append("n&me", value)
        #expect(Self.text(form) == "n%26me=\(encoded)")
        var sameForm = FormBody()
        sameForm.append("n&me", utf8: Array(value.utf8))
        #expect(sameForm.bytes == form.bytes)
    }
}
