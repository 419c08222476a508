import JSON

/// Returns the error with which a text is rejected, or `nil` if it is accepted.
func refusal(of text: String, maximumDepth: Int = 64) -> JSONError? {
    refusal(of: Array(text.utf8), maximumDepth: maximumDepth)
}

func refusal(of bytes: [UInt8], maximumDepth: Int = 64) -> JSONError? {
    do throws(JSONError) {
        _ = try JSONValue(parsing: bytes, maximumDepth: maximumDepth)
        return nil
    } catch {
        return error
    }
}

/// Compact documents of the kinds that this server parses.
enum Documents {
    static let registration =
        #"{"uuid":"1234567890123456789","device_id":"b5bf3f3e-9b1b","push_type":"gcm","#
        + #""push_token":"fXq3b1rV0kE:APA91bHPRgkF3JUikC4ENAHEeMrd41Zxv3hVZjC9KtT8OvPVGJ-hQMRKRrZuJAEcl7B338qju59z","#
        + #""locale":"ko_KR","timezone":540,"tags":["vip","서울"]}"#

    static let message =
        #"{"for_apns":{"badge":3,"sound":"default","push_alert":true,"message":"홍길동님이 초대장을 보냈습니다 🎉"},"#
        + #""for_gcm":{"collapse":"articleId123","delay_while_idle":false,"custom_field":{"rate":1.0,"big":1E400}}}"#

    static let escapes =
        #"["\" \\ \/ \b \f \n \r \t","\u0000\u001f\u20ac\uAC00","\uD83D\uDE00",-0,0.5e-7,null,[[],{}]]"#

    static let all = [registration, message, escapes, "[]", "{}", "0", "\"\"", " [ 1 , true ] "]
}
