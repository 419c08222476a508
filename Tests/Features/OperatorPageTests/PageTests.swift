import CEmbedded
import FoundationEssentials
import HTTPClient
import HTTPTypes
import JSON
import OperatorPage
import Server
import ServiceTesting
import TestSupport
import Testing

/// Tests of the page's files and of how they are served. `scripts/page` tests the page in a browser.
@Suite(.timeLimit(.minutes(5))) struct PageTests {
    private static let folder = "\(TestFiles.repository)/Sources/Features/OperatorPage/ui"

    /// The files in the program by their paths.
    private static var embedded: [String: [UInt8]] {
        var files: [String: [UInt8]] = [:]
        var index = 0
        while let file = embedded_page_file_at(index)?.pointee {
            files[String(cString: file.path)] = Array(UnsafeBufferPointer(start: file.bytes, count: file.count))
            index += 1
        }
        return files
    }

    private static func text(_ path: String) throws -> String {
        try String(contentsOfFile: "\(folder)/\(path)", encoding: .utf8)
    }

    private static var scripts: [(path: String, text: String)] {
        get throws {
            try embedded.keys.filter { $0.hasSuffix(".js") }.sorted().map { ($0, try text($0)) }
        }
    }

    @Test("The program has the files of the folder: scripts/embed-files lists them")
    func files() throws {
        let paths = try FileManager.default.subpathsOfDirectory(atPath: Self.folder).filter { path in
            var isFolder = false
            return FileManager.default.fileExists(atPath: "\(Self.folder)/\(path)", isDirectory: &isFolder) && !isFolder
        }
        #expect(Set(Self.embedded.keys) == Set(paths), "Run scripts/embed-files")
        for (path, bytes) in Self.embedded {
            #expect(
                FileManager.default.contents(atPath: "\(Self.folder)/\(path)").map { Array($0) } == bytes,
                "\(path)"
            )
        }
    }

    @Test("What a browser loads for a screen is small, and so is each file")
    func size() throws {
        let files = Self.embedded
        let screens = try Self.text("app.js").matches(of: /import\('\.\/(pages\/\w+\.js)'\)/)
            .map { String($0.output.1) }
        #expect(screens.count == 8)
        for screen in screens {
            var loaded: Set = ["index.html", "icon.svg", "style.css", "screens.css", "texts/ko.json"]
            if screen == "pages/try.js" { loaded.formUnion(["texts/try.ko.json", "try.css"]) }
            for module in ["app.js", screen] { try Self.load(module, &loaded) }
            let bytes = loaded.compactMap { files[$0]?.count }.reduce(0, +)
            #expect(bytes <= 120 * 1024, "\(screen): \(bytes) bytes")
        }
        for (path, bytes) in files where !path.hasSuffix(".json") {
            let lines = bytes.count { $0 == UInt8(ascii: "\n") }
            #expect(lines <= 250, "\(path): \(lines) lines")
        }
    }

    /// Adds a module and those that it imports, directly or through others.
    private static func load(_ module: String, _ loaded: inout Set<String>) throws {
        guard loaded.insert(module).inserted else { return }
        let folder = module.hasPrefix("pages/") ? "pages/" : ""
        for match in try text(module).matches(of: /from '(\.\.?)\/([^']+)'/) {
            try load((match.output.1 == "." ? folder : "") + match.output.2, &loaded)
        }
    }

    /// The texts of all screens in a language.
    private static func texts(_ language: String) throws -> [(name: String, value: JSONValue)] {
        try ["", "try."].flatMap { prefix in
            try #require(try JSONValue(parsing: text("texts/\(prefix)\(language).json")).object).members
                .map { ($0.name, $0.value) }
        }
    }

    @Test("Both languages have the same texts with the same parameters, and every text that the code names")
    func texts() throws {
        let (korean, english) = (try Self.texts("ko"), try Self.texts("en"))
        let all = Dictionary(korean.map { ($0.name, $0.value) }) { $1 }
        #expect(Set(korean.map(\.name)).count == korean.count && Set(english.map(\.name)).count == english.count)
        // Problems in English are the server's own words.
        let translated = Set(korean.map(\.name)).subtracting(english.map(\.name))
        #expect(translated.allSatisfy { $0.hasPrefix("problem.") }, "\(translated)")
        #expect(Set(english.map(\.name)).isSubset(of: korean.map(\.name)))
        func parameters(_ text: JSONValue) -> Set<String> {
            Set((text.string ?? "").matches(of: /{(\w+)}/).map { String($0.output.1) })
        }
        for (name, text) in english {
            let other = try #require(all[name])
            #expect(parameters(text) == parameters(other), "\(name)")
        }
        for (path, text) in try Self.scripts {
            for match in text.matches(of: /\bt\('([^'$]+)'/) {
                #expect(all[String(match.output.1)] != nil, "\(path) names \(match.output.1)")
            }
        }
    }

    @Test("Neither Korean nor HTML stands in the code, and nothing is parsed as HTML")
    func code() throws {
        for (path, text) in try Self.scripts {
            let code = text.split(separator: "\n").filter { !$0.contains(/^\s*(\/\/|\/?\*)/) }.joined(separator: "\n")
            let allowed = code.replacing("'한국어'", with: "").replacing("(광고)", with: "")
            #expect(!allowed.unicodeScalars.contains { (0xAC00...0xD7A3).contains($0.value) }, "\(path)")
            for word in [
                "innerHTML", "insertAdjacentHTML", "document.write", "srcdoc", "eval(", "new Function", "javascript:",
            ] {
                #expect(!code.contains(word), "\(path): \(word)")
            }
        }
    }

    @Test(
        "Each file has its type, and is kept for ever under the version of the page; the page itself is asked for again"
    )
    func serving() async throws {
        try await withService { service in
            let api = service.api.with(nil)
            let page = try await api.get("/ui/")
            #expect(page.status == 200 && page.headerFields[.cacheControl] == "no-cache")
            let entityTag = try #require(page.headerFields[.eTag])
            var again = api
            again.headerFields[.ifNoneMatch] = entityTag
            let unchanged = try await again.get("/ui/")
            #expect(unchanged.status == 304 && unchanged.body.isEmpty && unchanged.headerFields[.eTag] == entityTag)
            let version = try #require(page.text.firstMatch(of: /src="([0-9a-f]{16})\/app.js"/)).output.1
            #expect(!page.text.contains("data-sandbox"))
            let types = [
                "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "json": "application/json",
                "svg": "image/svg+xml",
            ]
            for (path, bytes) in Self.embedded where path != "index.html" {
                let file = try await api.get("/ui/\(version)/\(path)")
                #expect(file.status == 200 && file.body == bytes, "\(path)")
                let ending = path.split(separator: ".").last.map(String.init) ?? ""
                #expect(file.headerFields[.contentType] == types[ending], "\(path)")
                #expect(file.headerFields[.cacheControl] == "public, max-age=31536000, immutable")
                #expect(try await api.get("/ui/0/\(path)").headerFields[.cacheControl] == "no-store")
                Self.expectHeaders(file)
            }
            Self.expectHeaders(page)
            for path in [
                "/ui/\(version)/none.js", "/ui/\(version)/pages/none.js", "/ui/\(version)/..%2Fapp.js",
                "/sandbox/stats",
            ] {
                #expect(try await service.api.get(path).status == 404, "\(path)")
            }
        }
    }

    private static func expectHeaders(_ response: HTTPClientResponse) {
        let policy = """
            default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; frame-src 'self'; \
            form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'
            """
        for (name, value) in [
            ("Content-Security-Policy", policy), ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Opener-Policy", "same-origin"), ("Cross-Origin-Resource-Policy", "same-origin"),
        ] {
            #expect(HTTPField.Name(name).flatMap { response.headerFields[$0] } == value)
        }
    }

    @Test("A browser goes from the address of the server to the page; other clients get the paths")
    func start() async throws {
        try await withService { service in
            var browser = service.api.with(nil)
            browser.headerFields[.accept] = "text/html,application/xhtml+xml,*/*;q=0.8"
            let answer = try await browser.get("/")
            #expect(answer.status == 302 && answer.headerFields[.location] == "/ui/")
            #expect(try await service.api.with(nil).get("/").json?["page"] == "/ui/")
            #expect(try await service.api.with(nil).get("/ui").headerFields[.location] == "/ui/")
        }
    }

    @Test("With page.enabled: false, there is no page, and nobody can sign in")
    func switchedOff() async throws {
        let adjust = { (settings: inout Settings) in settings.page.isEnabled = false }
        try await withService(adjust) { service in
            let client = service.api.with(nil)
            for path in ["/ui/", "/ui/0/app.js"] {
                let answer = try await client.get(path)
                #expect(answer.problem == "not-configured", "\(path)")
            }
            let signIn = try await client.post("/v1/session", json: ["key": .string(Keys.operator)])
            #expect(signIn.problem == "not-configured")
            var browser = client
            browser.headerFields[.accept] = "text/html"
            let start = try await browser.get("/")
            #expect(start.status == 200)
        }
    }

    @Test("A template of a form is shown as a page of its own, in which nothing runs")
    func preview() async throws {
        try await withService { service in
            var frame = service.api
            frame.headerFields[.accept] = "text/html,*/*"
            let template = #"{"object_type":"text","text":"<img src=x onerror=alert(1)>","link":{}}"#
            let page = try await frame.post("/v1/templates/preview", form: ["template": template])
            #expect(page.status == 200, "\(page.text)")
            #expect(page.headerFields[.contentType] == "text/html; charset=utf-8")
            #expect(
                page.headerFields[.contentSecurityPolicy]
                    == "sandbox; default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"
            )
            #expect(page.text.contains("&lt;img src=x onerror=alert(1)&gt;") && !page.text.contains("<img"))
            let empty = try await frame.post("/v1/templates/preview", form: ["a": "b"])
            #expect(empty.status == 400 && empty.json?["field"] == "template")
        }
    }
}
