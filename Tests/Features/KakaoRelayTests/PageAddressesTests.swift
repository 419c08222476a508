import Testing

@testable import KakaoRelay

/// The addresses of other pages in Kakao's responses.
@Suite struct PageAddressesTests {
    private static func replaced(
        _ body: String,
        _ publicURL: String? = "https://push.example.com",
        of userID: Int64? = nil
    ) -> String {
        String(decoding: PageAddresses.replacing(in: Array(body.utf8), publicURL, of: userID), as: UTF8.self)
    }

    @Test("The address for an operator names the user whose token Kakao has got", arguments: ["", "?limit=1"])
    func user(query: String) {
        let user = "\(query.isEmpty ? "?" : "&")target_id_type=user_id&target_id=7"
        let body = #"{"after_url":"https://kapi.kakao.com/v1/api/talk/friends\#(query)"}"#
        let replaced = #"{"after_url":"https://push.example.com/v1/api/talk/friends\#(query)\#(user)"}"#
        #expect(Self.replaced(body, of: 7) == replaced)
    }

    @Test("Only the host of the two addresses changes; numbers and the order of members stay")
    func replaced() {
        let body =
            #"{"z":9223372036854775807,"after_url":"http://kapi.kakao.com/v1/user/ids?from_id=1&a=/b","a":[1.50,"http://kapi.kakao.com/x"],"before_url":"https://kapi.kakao.com:443/v1"}"#
        #expect(
            Self.replaced(body)
                == #"{"z":9223372036854775807,"after_url":"https://push.example.com/v1/user/ids?from_id=1&a=/b","a":[1.50,"http://kapi.kakao.com/x"],"before_url":"https://push.example.com/v1"}"#
        )
        #expect(Self.replaced(#"{"after_url":"http://kapi.kakao.com/a"}"#, nil) == #"{"after_url":"/a"}"#)
    }

    @Test(
        "A body without such an address comes back byte for byte",
        arguments: [
            "", "{", "[]", "null", "{ \"a\" : 1 }", #"{ "after_url": null }"#, #"{ "after_url": "" }"#,
            #"{ "after_url": "/v1/user/ids" }"#, #"{ "after_url": "https://kapi.kakao.com" }"#, #"{ "after_url": 1 }"#,
            #"{ "after_url": "ftp://a/b" }"#, #"{ "after_url": "http://" }"#,
        ]
    )
    func unchanged(body: String) {
        #expect(Self.replaced(body) == body)
    }
}
