/// Programs that open links without a person: crawlers, and messengers that prepare a preview.
enum Robots {
    /// Parts of their `User-Agent`, in lower case. Kakao's own reader of pages is `kakaotalk-scrap`; KakaoTalk's browser,
    /// `KAKAOTALK 10.0`, is a person's.
    private static let marks = [
        "bot/", "bot)", "bot;", "+http", "crawl", "spider", "scrap", "preview", "facebookexternalhit", "slurp", "yeti/",
        "daum/", "headless",
        "python-", "curl/", "wget/", "go-http-client", "okhttp", "java/", "libwww",
    ]

    /// Returns whether a `User-Agent` is that of a robot.
    static func include(_ userAgent: String) -> Bool {
        let agent = userAgent.lowercased()
        return marks.contains { agent.contains($0) }
    }
}
