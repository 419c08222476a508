import Testing

@testable import push_server

/// Tests that addresses which Kakao can call are distinguished from others.
@Suite struct WebAddressTests {
    @Test(
        "Addresses that are routed on the Internet are public",
        arguments: [
            "8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.167.1.1",
            "211.249.1.1",
            "2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::808:808",
        ]
    )
    func isPublic(_ address: String) {
        #expect(WebAddress.isPublic(address))
    }

    @Test(
        "Private, loopback and documentation addresses and other text are not public",
        arguments: [
            "0.0.0.0", "10.1.2.3", "100.64.0.1", "100.127.255.255", "127.0.0.1", "169.254.169.254", "172.16.0.1",
            "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.1",
            "203.0.113.1", "224.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fc00::1", "fd12::1", "ff02::1",
            "2001:db8::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "push.example.com", "", "8.8.8", "8.8.8.8 ",
        ]
    )
    func isNotPublic(_ address: String) {
        #expect(!WebAddress.isPublic(address))
    }

    @Test(
        "Names that resolve only in a private network are private",
        arguments: [
            ("https://localhost", true), ("https://push", true), ("https://push.local", true),
            ("https://Push.Internal:8443/x", true), ("https://push.home.arpa", true), ("https://push.kakao.com", false),
            ("https://local.kakao.com", false), ("https://10.0.0.1", false), ("https://[::1]:8080", false),
        ]
    )
    func privateNames(_ url: String, _ isPrivate: Bool) {
        #expect(WebAddress(url).isPrivateName == isPrivate)
    }

    @Test("The host of a URL is in lowercase and without port and brackets")
    func host() {
        #expect(WebAddress("https://Push.Example.com:8443/a/b").host == "push.example.com")
        #expect(WebAddress("https://[2001:db8::1]:8443").host == "2001:db8::1")
        #expect(WebAddress("https://[2001:db8::1]").isHTTPS)
        #expect(!WebAddress("http://push.example.com").isHTTPS)
        #expect(WebAddress("nothing").host.isEmpty)
        for url in ["http://localhost:1", "http://127.0.0.1", "http://[::1]:1"] { #expect(WebAddress(url).isLoopback) }
        #expect(!WebAddress("http://push.example.com").isLoopback)
    }
}
