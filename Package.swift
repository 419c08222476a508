// swift-tools-version: 6.2

import PackageDescription

let common: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    // https://github.com/swiftlang/swift-evolution/blob/main/proposals/0335-existential-any.md
    .enableUpcomingFeature("ExistentialAny"),
    // https://github.com/swiftlang/swift-evolution/blob/main/proposals/0444-member-import-visibility.md
    .enableUpcomingFeature("MemberImportVisibility"),
    // https://github.com/swiftlang/swift-evolution/blob/main/proposals/0461-async-function-isolation.md
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]
// https://github.com/swiftlang/swift-evolution/blob/main/proposals/0409-access-level-on-imports.md
let settings = common + [.enableUpcomingFeature("InternalImportsByDefault")]
/// The settings of a target whose generic code is compiled for the types of the targets that use it. The compiler does so for public
/// declarations, unless they use what is not imported publicly.
let specialized = common + [.unsafeFlags(["-cross-module-optimization"], .when(configuration: .release))]

let argumentParser = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")
let deque = Target.Dependency.product(name: "DequeModule", package: "swift-collections")
let httpTypes = Target.Dependency.product(name: "HTTPTypes", package: "swift-http-types")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let serviceLifecycle = Target.Dependency.product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let subprocess = Target.Dependency.product(name: "Subprocess", package: "swift-subprocess")
let systemPackage = Target.Dependency.product(name: "SystemPackage", package: "swift-system")
let unixSignals = Target.Dependency.product(name: "UnixSignals", package: "swift-service-lifecycle")

/// Returns a library target in a folder of `Sources`, whose last part is its name. `docs/architecture.md` shows the floors.
func target(
    _ path: String,
    _ dependencies: [Target.Dependency],
    exclude: [String] = [],
    _ settings: [SwiftSetting] = settings
) -> Target {
    .target(
        name: name(path),
        dependencies: dependencies,
        path: "Sources/\(path)",
        exclude: exclude,
        swiftSettings: settings
    )
}

/// Returns a target of a C library, or of the few C lines that Swift cannot express.
func system(_ path: String, pkgConfig: String? = nil, package: String? = nil) -> Target {
    .systemLibrary(
        name: name(path),
        path: "Sources/\(path)",
        pkgConfig: pkgConfig,
        providers: package.map { [.apt([$0])] }
    )
}

/// Returns the target of a program.
func executable(_ path: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(name: name(path), dependencies: dependencies, path: "Sources/\(path)", swiftSettings: settings)
}

/// Returns a target of tests, in a folder of `Tests`.
func tests(_ path: String, _ dependencies: [Target.Dependency], exclude: [String] = []) -> Target {
    .testTarget(
        name: name(path),
        dependencies: dependencies,
        path: "Tests/\(path)",
        exclude: exclude,
        swiftSettings: settings
    )
}

/// Returns a target with helpers of several test targets.
func testSupport(_ path: String, _ dependencies: [Target.Dependency]) -> Target {
    .target(name: name(path), dependencies: dependencies, path: "Tests/\(path)", swiftSettings: settings)
}

func name(_ path: String) -> String { String(path.split(separator: "/").last ?? "") }

let package = Package(
    name: "kakao-push-server",
    platforms: [.macOS(.v26)],
    products: [
        .executable(name: "push-server", targets: ["push-server"]),
        .executable(name: "kakao-sandbox", targets: ["kakao-sandbox"]),
        .library(name: "Templates", targets: ["Templates"]),
    ],
    // Exact versions, so that each build has those that the tests ran with. Package.resolved, which would pin commits too, is not
    // committed: mirrors of these packages may have other commits.
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser.git", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-collections.git", exact: "1.6.0"),
        .package(url: "https://github.com/apple/swift-http-types.git", exact: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log.git", exact: "1.16.2"),
        .package(url: "https://github.com/apple/swift-system.git", exact: "1.8.1"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", exact: "2.13.0"),
        .package(url: "https://github.com/swiftlang/swift-subprocess.git", exact: "1.0.2", traits: []),
    ],
    targets: [
        // Engine: independent of Kakao.
        system("Engine/CLinux"),
        system("Engine/CLibpq", pkgConfig: "libpq", package: "libpq-dev"),
        system("Engine/CLibssl", pkgConfig: "openssl", package: "libssl-dev"),
        system("Engine/CLibyaml", pkgConfig: "yaml-0.1", package: "libyaml-dev"),
        target("Engine/Locking", []),
        target("Engine/EventLoop", ["CLinux", "Locking", deque]),
        target("Engine/JSON", []),
        target("Engine/Journal", ["EventLoop", "Locking", logging]),
        target("Engine/LogOutput", ["Locking", logging]),
        target("Engine/Crypto", ["CLibssl"]),
        target("Engine/Net", ["CLibssl", "CLinux", "EventLoop", "Locking", httpTypes]),
        target(
            "Engine/HTTPServer",
            ["CLinux", "EventLoop", "JSON", "Locking", "LogOutput", "Net", deque, httpTypes, logging]
        ),
        target("Engine/HTTPClient", ["EventLoop", "Net", deque, httpTypes]),
        target("Engine/Postgres", ["CLibpq", "Crypto", "EventLoop", "Locking", "Net", deque, logging]),

        // Kakao: its calls, its templates, and a simulation of it.
        target("Kakao/Templates", ["JSON"]),
        target("Kakao/Schemas", ["JSON"]),
        target(
            "Kakao/KakaoAPI",
            ["Crypto", "EventLoop", "HTTPClient", "JSON", "Locking", "Net", "Schemas", httpTypes]
        ),
        target(
            "Kakao/KakaoSandbox",
            [
                "CLibssl", "Crypto", "EventLoop", "HTTPClient", "HTTPServer", "JSON", "KakaoAPI", "Locking", "Net",
                "Schemas", "Templates", httpTypes, logging, serviceLifecycle, unixSignals,
            ]
        ),

        // Service: the parts that features are made of.
        target(
            "Service/Endpoints",
            ["Crypto", "EventLoop", "HTTPServer", "JSON", "Locking", "Net", "Postgres", "Schemas", httpTypes, logging]
        ),
        .target(name: "CEmbedded", path: "Sources/Service/CEmbedded"),
        target("Service/Settings", ["CLibyaml", "Crypto", "HTTPClient", "HTTPServer", "KakaoAPI", "Schemas"]),
        target(
            "Service/Runtime",
            [
                "CEmbedded", "Endpoints", "EventLoop", "HTTPClient", "HTTPServer", "JSON", "KakaoAPI", "Locking",
                "LogOutput", "Postgres", "Schemas", httpTypes, logging, serviceLifecycle,
            ],
            specialized
        ),
        target(
            "Service/Identity",
            [
                "Crypto", "Endpoints", "EventLoop", "HTTPClient", "HTTPServer", "JSON", "KakaoAPI", "Locking",
                "LogOutput",
                "Net", "Postgres", "Runtime", "Schemas", "Settings", httpTypes, logging,
            ]
        ),
        target(
            "Service/ServiceKit",
            [
                "Crypto", "Endpoints", "EventLoop", "HTTPClient", "HTTPServer", "Identity", "Journal", "KakaoAPI",
                "Locking", "Net", "Postgres", "Runtime", "Settings", logging, serviceLifecycle,
            ]
        ),

        // Features.
        target(
            "Features/Keys",
            ["Endpoints", "HTTPServer", "Identity", "Postgres", "Runtime", "Schemas", "ServiceKit", httpTypes]
        ),
        target(
            "Features/Accounts",
            [
                "Crypto", "Endpoints", "EventLoop", "HTTPClient", "HTTPServer", "Identity", "JSON", "KakaoAPI",
                "Locking", "LogOutput", "Net", "Postgres", "Runtime", "Schemas", "ServiceKit", "Settings", httpTypes,
                logging, serviceLifecycle,
            ]
        ),
        target(
            "Features/Devices",
            [
                "Endpoints", "EventLoop", "HTTPServer", "Identity", "JSON", "KakaoAPI", "Postgres", "Runtime",
                "Schemas", "ServiceKit", "Settings", httpTypes, logging, serviceLifecycle,
            ]
        ),
        target(
            "Features/Pushes",
            [
                "Crypto", "Endpoints", "EventLoop", "HTTPClient", "HTTPServer", "Identity", "JSON", "KakaoAPI",
                "Locking",
                "Postgres",
                "Runtime", "Schemas", "ServiceKit", "Settings", deque, httpTypes, logging, serviceLifecycle,
            ]
        ),
        target(
            "Features/Channels",
            [
                "Endpoints", "EventLoop", "HTTPServer", "Identity", "JSON", "KakaoAPI", "Locking", "Postgres",
                "Runtime",
                "Schemas", "ServiceKit", "Settings", httpTypes, logging, serviceLifecycle,
            ]
        ),
        target(
            "Features/Callbacks",
            [
                "Channels", "Crypto", "Endpoints", "EventLoop", "HTTPClient", "HTTPServer", "Identity", "Journal",
                "JSON",
                "KakaoAPI", "Locking", "LogOutput", "Net", "Postgres", "Runtime", "Schemas", "ServiceKit", "Settings",
                "Sharing", httpTypes, logging, serviceLifecycle,
            ]
        ),
        target(
            "Features/Messages",
            [
                "Accounts", "Endpoints", "EventLoop", "HTTPClient", "HTTPServer", "JSON", "KakaoAPI", "Locking",
                "Postgres", "Runtime", "Schemas", "ServiceKit", "Settings", "Sharing", "Templates", deque, httpTypes,
                logging, serviceLifecycle,
            ]
        ),
        target(
            "Features/KakaoRelay",
            [
                "Accounts", "Endpoints", "HTTPClient", "HTTPServer", "Identity", "JSON", "KakaoAPI", "Locking",
                "Messages", "Runtime", "Schemas", "ServiceKit", "Settings", "Sharing", "Templates", httpTypes,
            ]
        ),
        target(
            "Features/Sharing",
            [
                "Crypto", "Endpoints", "EventLoop", "HTTPServer", "Identity", "JSON", "KakaoAPI", "Locking", "Net",
                "Postgres", "Runtime", "Schemas", "ServiceKit", "Settings", "Templates", httpTypes, logging,
                serviceLifecycle,
            ]
        ),
        target(
            "Features/OperatorPage",
            [
                "CEmbedded", "Crypto", "Endpoints", "HTTPClient", "HTTPServer", "Identity", "Net", "Runtime",
                "Schemas", "ServiceKit", "Settings", httpTypes,
            ],
            exclude: ["ui"]
        ),
        target(
            "Features/Status",
            [
                "Endpoints", "EventLoop", "HTTPServer", "Journal", "Locking", "Postgres", "Runtime", "Schemas",
                "ServiceKit", "Settings", httpTypes, logging, serviceLifecycle,
            ]
        ),
        target(
            "Features/Webhooks",
            [
                "Crypto", "Endpoints", "EventLoop", "HTTPClient", "HTTPServer", "Identity", "JSON", "KakaoAPI",
                "Locking",
                "Postgres", "Runtime", "Schemas", "ServiceKit", "Settings", deque, httpTypes, logging, serviceLifecycle,
            ]
        ),

        // Server: the list of features, and their life.
        target(
            "Server",
            [
                "Accounts", "Callbacks", "CEmbedded", "Channels", "Crypto", "Devices", "Endpoints", "EventLoop",
                "HTTPClient",
                "HTTPServer", "Identity", "Journal", "KakaoAPI", "KakaoRelay", "Keys", "Locking", "LogOutput",
                "Messages", "Net", "OperatorPage",
                "Postgres", "Pushes", "Runtime", "ServiceKit", "Settings", "Sharing", "Status", "Webhooks", logging,
                serviceLifecycle, unixSignals,
            ]
        ),

        // Programs.
        executable(
            "Programs/push-server",
            [
                "Accounts", "Callbacks", "ChildProcess", "Crypto", "Endpoints", "EventLoop", "HTTPClient",
                "HTTPServer", "Identity", "JSON", "Journal", "KakaoAPI", "LogOutput", "Messages", "Net", "OperatorPage",
                "Postgres", "PrivatePostgres", "Pushes", "Runtime", "Schemas", "Server", "Settings", "Sharing",
                "Templates",
                argumentParser, httpTypes, logging, subprocess, systemPackage, unixSignals,
            ]
        ),
        executable("Programs/kakao-sandbox", ["EventLoop", "KakaoSandbox", argumentParser, logging]),

        // Tools, which are not deployed, except for ChildProcess and PrivatePostgres in `push-server dev`.
        target("Tools/ChildProcess", [subprocess, systemPackage]),
        target("Tools/PrivatePostgres", ["ChildProcess", subprocess, systemPackage]),
        // Used by scripts/prove delivery.
        executable(
            "Tools/delivery-proof",
            [
                "Accounts", "Channels", "ChildProcess", "CLinux", "EventLoop", "HTTPClient", "JSON", "KakaoSandbox",
                "Locking", "LogOutput", "Messages", "Net", "Postgres", "PrivatePostgres", "Pushes", "Runtime", "Server",
                argumentParser, deque, httpTypes, logging, subprocess,
            ]
        ),
        // Used by scripts/bench.
        executable(
            "Tools/http-benchmark",
            ["EventLoop", "HTTPClient", "HTTPServer", "JSON", "Net", argumentParser, httpTypes, logging, unixSignals]
        ),

        // Tests.
        testSupport(
            "TestSupport",
            ["ChildProcess", "EventLoop", "Locking", "Postgres", "PrivatePostgres", logging, subprocess, systemPackage]
        ),
        tests("Engine/EventLoopTests", ["EventLoop", "Locking", "TestSupport"]),
        tests("Engine/JSONTests", ["JSON", "TestSupport"]),
        tests("Engine/JournalTests", ["EventLoop", "Journal", "Locking", "TestSupport", logging]),
        tests("Engine/NetTests", ["CLinux", "EventLoop", "Locking", "Net", "TestSupport", httpTypes]),
        tests(
            "Engine/HTTPServerTests",
            ["CLibssl", "EventLoop", "HTTPServer", "JSON", "Locking", "Net", "TestSupport", httpTypes, logging]
        ),
        tests(
            "Engine/HTTPClientTests",
            ["CLibssl", "EventLoop", "HTTPClient", "Locking", "Net", "TestSupport", httpTypes]
        ),
        tests(
            "Engine/PostgresTests",
            ["EventLoop", "Locking", "Net", "Postgres", "PrivatePostgres", "TestSupport", logging]
        ),
        tests("Kakao/SchemasTests", ["JSON", "Schemas"]),
        tests("Kakao/TemplatesTests", ["JSON", "Templates"]),
        tests(
            "Kakao/KakaoAPITests",
            ["EventLoop", "HTTPClient", "JSON", "KakaoAPI", "Locking", "Net", "Schemas", "TestSupport", httpTypes],
            exclude: ["Fixtures"]
        ),
        tests(
            "Kakao/KakaoSandboxTests",
            [
                "Crypto", "EventLoop", "HTTPClient", "HTTPServer", "JSON", "kakao-sandbox", "KakaoAPI", "KakaoSandbox",
                "Net", "TestSupport", httpTypes, logging,
            ]
        ),
        testSupport(
            "ServiceTesting",
            [
                "Accounts", "CLibssl", "Crypto", "Endpoints", "EventLoop", "HTTPClient", "HTTPServer", "Identity",
                "JSON", "KakaoAPI", "KakaoSandbox", "Locking", "LogOutput", "Net", "Postgres", "PrivatePostgres",
                "Pushes", "Runtime", "Schemas", "Server", "Settings", "TestSupport", "Webhooks", httpTypes, logging,
                serviceLifecycle, subprocess, systemPackage,
            ]
        ),
        tests("Service/SettingsTests", ["Crypto", "Settings"]),
        tests(
            "Service/EndpointsTests",
            [
                "Endpoints", "EventLoop", "HTTPClient", "HTTPServer", "Identity", "JSON", "KakaoRelay", "KakaoSandbox",
                "Net", "Postgres", "Pushes", "Schemas", "Server", "ServiceTesting", "Settings", "TestSupport",
                httpTypes,
            ]
        ),
        tests(
            "Service/IdentityTests",
            [
                "Crypto", "Endpoints", "EventLoop", "HTTPClient", "HTTPServer", "Identity", "JSON", "KakaoAPI",
                "KakaoSandbox", "Locking", "Net", "Postgres", "Runtime", "Server", "ServiceTesting", "Settings",
                "TestSupport", httpTypes, logging,
            ]
        ),
        tests(
            "Service/RuntimeTests",
            ["EventLoop", "KakaoAPI", "Locking", "Runtime", "ServiceKit", "ServiceTesting", "TestSupport", logging]
        ),
        tests(
            "Features/AccountsTests",
            [
                "Accounts", "Crypto", "Endpoints", "EventLoop", "HTTPClient", "HTTPServer", "Identity", "JSON",
                "KakaoAPI", "KakaoSandbox", "Locking", "Net", "Postgres", "Server", "ServiceKit", "ServiceTesting",
                "Settings", "TestSupport", httpTypes,
            ]
        ),
        tests(
            "Features/ChannelsTests",
            [
                "Channels", "Endpoints", "HTTPClient", "HTTPServer", "Identity", "JSON", "KakaoAPI", "KakaoSandbox",
                "Postgres", "Runtime", "Server", "ServiceKit", "ServiceTesting", "Settings", "TestSupport", httpTypes,
            ]
        ),
        tests(
            "Features/CallbacksTests",
            [
                "Callbacks", "Channels", "Crypto", "Devices", "Endpoints", "EventLoop", "HTTPClient", "HTTPServer",
                "Identity",
                "Journal", "JSON", "KakaoAPI", "KakaoSandbox", "Locking", "Net", "Postgres", "PrivatePostgres",
                "Runtime", "Server", "ServiceKit", "ServiceTesting", "Settings", "Sharing", "TestSupport", httpTypes,
                logging, subprocess,
            ]
        ),
        tests(
            "Features/DevicesTests",
            [
                "Callbacks", "Crypto", "Devices", "Endpoints", "EventLoop", "HTTPClient", "HTTPServer", "Identity",
                "JSON", "KakaoAPI", "KakaoSandbox", "Net", "Postgres", "Runtime", "Server", "ServiceKit",
                "ServiceTesting", "Settings", "TestSupport", httpTypes, logging,
            ]
        ),
        tests(
            "Features/KakaoRelayTests",
            [
                "Accounts", "Crypto", "Endpoints", "EventLoop", "HTTPClient", "HTTPServer", "Identity", "JSON",
                "KakaoAPI", "KakaoRelay", "KakaoSandbox", "Locking", "Messages", "Net", "Postgres", "Runtime", "Server",
                "ServiceKit", "ServiceTesting", "Settings", "Sharing", "TestSupport", httpTypes,
            ]
        ),
        tests(
            "Features/KeysTests",
            [
                "Endpoints", "HTTPClient", "Identity", "JSON", "Postgres", "Server", "ServiceTesting", "TestSupport",
                httpTypes,
            ]
        ),
        tests(
            "Features/MessagesTests",
            [
                "Accounts", "Endpoints", "EventLoop", "HTTPClient", "HTTPServer", "JSON", "KakaoAPI", "KakaoSandbox",
                "Locking", "Messages", "Postgres", "PrivatePostgres", "Runtime", "Server", "ServiceKit",
                "ServiceTesting", "Sharing", "TestSupport", httpTypes,
            ]
        ),
        tests(
            "Features/OperatorPageTests",
            [
                "CEmbedded", "HTTPClient", "HTTPServer", "JSON", "OperatorPage", "Server", "ServiceTesting",
                "TestSupport", httpTypes,
            ]
        ),
        tests(
            "Features/PushesTests",
            [
                "Crypto", "Endpoints", "EventLoop", "HTTPClient", "HTTPServer", "Identity", "JSON", "KakaoAPI",
                "KakaoSandbox",
                "Locking", "Net", "Postgres", "PrivatePostgres", "Pushes", "Runtime", "Server", "ServiceTesting",
                "Settings", "TestSupport", "Webhooks", httpTypes, logging, subprocess,
            ]
        ),
        tests(
            "Features/SharingTests",
            [
                "Callbacks", "Crypto", "Endpoints", "EventLoop", "HTTPClient", "HTTPServer", "Identity", "JSON",
                "KakaoAPI", "KakaoSandbox", "Locking", "Net", "Postgres", "Server", "ServiceKit", "ServiceTesting",
                "Settings", "Sharing", "Templates", "TestSupport", httpTypes, logging,
            ]
        ),
        tests(
            "Features/StatusTests",
            [
                "Crypto", "Endpoints", "EventLoop", "HTTPClient", "HTTPServer", "Identity", "JSON", "KakaoAPI",
                "KakaoRelay", "KakaoSandbox", "LogOutput", "Messages", "Net", "Postgres", "PrivatePostgres", "Pushes",
                "Runtime", "Server", "ServiceKit", "ServiceTesting", "Settings", "Sharing", "Status", "TestSupport",
                httpTypes, subprocess,
            ]
        ),
        tests(
            "Features/WebhooksTests",
            [
                "Callbacks", "Endpoints", "HTTPClient", "Identity", "JSON", "KakaoSandbox", "Postgres",
                "PrivatePostgres", "Pushes", "Runtime", "Server", "ServiceKit", "ServiceTesting", "Settings",
                "TestSupport", "Webhooks", logging,
            ]
        ),
        tests(
            "Server/ServerTests",
            [
                "Accounts", "Callbacks", "Channels", "CLibpq", "Crypto", "Devices", "Endpoints", "EventLoop",
                "HTTPClient",
                "HTTPServer", "Identity", "JSON", "kakao-sandbox", "KakaoAPI", "KakaoRelay", "KakaoSandbox", "Keys",
                "Locking", "LogOutput", "Messages", "Net", "Postgres", "push-server", "Pushes", "Runtime", "Server",
                "ServiceKit", "ServiceTesting", "Settings", "Sharing", "Status", "TestSupport", "Webhooks", httpTypes,
                logging, subprocess, systemPackage,
            ],
            exclude: ["Released"]
        ),
        tests(
            "Programs/PushServerTests",
            [
                "Accounts", "Crypto", "Endpoints", "EventLoop", "HTTPClient", "HTTPServer", "Identity", "JSON",
                "Journal",
                "kakao-sandbox", "KakaoSandbox", "Locking", "Net", "Postgres", "PrivatePostgres", "push-server",
                "Pushes",
                "Runtime", "Schemas", "Server", "ServiceTesting", "Settings", "TestSupport", argumentParser, httpTypes,
                subprocess,
                systemPackage,
            ],
            exclude: ["Fixtures"]
        ),
        tests("Tools/DeliveryProofTests", ["delivery-proof"]),
    ]
)
