// swift-tools-version: 6.2

import PackageDescription

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    // https://github.com/swiftlang/swift-evolution/blob/main/proposals/0335-existential-any.md
    .enableUpcomingFeature("ExistentialAny"),
    // https://github.com/swiftlang/swift-evolution/blob/main/proposals/0444-member-import-visibility.md
    .enableUpcomingFeature("MemberImportVisibility"),
    // https://github.com/swiftlang/swift-evolution/blob/main/proposals/0409-access-level-on-imports.md
    .enableUpcomingFeature("InternalImportsByDefault"),
    // https://github.com/swiftlang/swift-evolution/blob/main/proposals/0461-async-function-isolation.md
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

/// Returns a target of this package with the settings above. `docs/architecture.md` shows the dependencies.
func target(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .target(name: name, dependencies: dependencies, swiftSettings: settings)
}

/// Returns a target of a feature: it depends on the engine and on `ServiceKit`, but never on another feature.
func feature(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    let common: [Target.Dependency] = [
        "EventLoop", "HTTPClient", "HTTPServer", "JSON", "KakaoAPI", "Locking", "Net", "Postgres", "Schemas",
        "ServiceKit",
        httpTypes, logging, serviceLifecycle,
    ]
    return target(name, common + dependencies)
}

func executable(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(name: name, dependencies: dependencies, swiftSettings: settings)
}

func tests(_ name: String, _ dependencies: [Target.Dependency], exclude: [String] = []) -> Target {
    .testTarget(name: name, dependencies: dependencies + ["TestSupport"], exclude: exclude, swiftSettings: settings)
}

let argumentParser = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")
let coreMetrics = Target.Dependency.product(name: "CoreMetrics", package: "swift-metrics")
let deque = Target.Dependency.product(name: "DequeModule", package: "swift-collections")
let httpTypes = Target.Dependency.product(name: "HTTPTypes", package: "swift-http-types")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let serviceLifecycle = Target.Dependency.product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let subprocess = Target.Dependency.product(name: "Subprocess", package: "swift-subprocess")
let systemPackage = Target.Dependency.product(name: "SystemPackage", package: "swift-system")
let unixSignals = Target.Dependency.product(name: "UnixSignals", package: "swift-service-lifecycle")

let package = Package(
    name: "kakao-push-server",
    platforms: [.macOS(.v26)],
    products: [
        .executable(name: "push-server", targets: ["push-server"]),
        .executable(name: "kakao-sandbox", targets: ["kakao-sandbox"]),
        .library(name: "Templates", targets: ["Templates"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser.git", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-collections.git", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-http-types.git", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log.git", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics.git", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-system.git", from: "1.8.1"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.13.0"),
        .package(url: "https://github.com/swiftlang/swift-subprocess.git", from: "1.0.2", traits: []),
    ],
    targets: [
        // System libraries and the few C lines that Swift cannot express.
        .systemLibrary(name: "CLinux"),
        .systemLibrary(name: "CLibpq", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
        .systemLibrary(name: "CLibssl", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CLibyaml", pkgConfig: "yaml-0.1", providers: [.apt(["libyaml-dev"])]),

        // The engine, independent of Kakao.
        target("Locking", []),
        target("EventLoop", ["CLinux", "Locking", deque]),
        target("JSON", []),
        target("Journal", ["EventLoop", "Locking", logging]),
        target("LogOutput", ["Locking", logging]),
        target("PrometheusMetrics", ["Locking", coreMetrics]),
        target("Crypto", ["CLibssl"]),
        target("Net", ["EventLoop", "CLinux", "CLibssl", "Locking", httpTypes]),
        target("HTTPServer", ["EventLoop", "Net", "CLinux", "JSON", "Locking", httpTypes, logging]),
        target("HTTPClient", ["EventLoop", "Net", httpTypes]),
        target("Postgres", ["EventLoop", "Net", "CLibpq", deque, logging]),

        // The service.
        target("Templates", ["JSON"]),
        target("Schemas", ["JSON"]),
        target("KakaoAPI", ["Crypto", "EventLoop", "HTTPClient", "JSON", "Locking", "Net", "Schemas", httpTypes]),
        target(
            "ServiceKit",
            [
                "CLibyaml", "Crypto", "EventLoop", "HTTPClient", "HTTPServer", "JSON", "Journal", "KakaoAPI",
                "Locking", "Net", "Postgres", "PrometheusMetrics", "Schemas", "Templates", coreMetrics, httpTypes,
                logging, serviceLifecycle,
            ]
        ),
        // The features, which do not know each other.
        feature("Accounts", ["Crypto"]),
        feature("Devices", []),
        feature("Pushes", ["Crypto", deque]),
        feature("Callbacks", ["Journal"]),
        feature("Messages", ["Templates", deque]),
        feature("Relay", ["Templates"]),
        feature("Sharing", ["Crypto", "Templates"]),
        feature("Operations", ["Journal", "PrometheusMetrics"]),
        feature("Webhooks", ["Crypto", deque]),
        target(
            "PushService",
            [
                "Accounts", "Callbacks", "Crypto", "Devices", "EventLoop", "HTTPClient", "HTTPServer", "Journal",
                "Locking", "LogOutput", "Messages", "Net", "Operations", "Postgres", "Pushes", "Relay", "ServiceKit",
                "Sharing", "Webhooks", logging, serviceLifecycle,
            ]
        ),
        target(
            "Doctor",
            [
                "Accounts", "Callbacks", "Crypto", "EventLoop", "HTTPClient", "HTTPServer", "JSON", "KakaoAPI",
                "Messages", "Net", "Postgres", "PushService", "ServiceKit", httpTypes, logging,
            ]
        ),
        target(
            "KakaoSandbox",
            [
                "CLibssl", "Crypto", "EventLoop", "HTTPClient", "HTTPServer", "JSON", "KakaoAPI", "Locking", "Net",
                "Schemas", "Templates", httpTypes, logging, serviceLifecycle, unixSignals,
            ]
        ),
        target("PrivatePostgres", [subprocess, systemPackage]),
        executable(
            "push-server",
            [
                "Accounts", "Crypto", "Doctor", "EventLoop", "HTTPClient", "JSON", "LogOutput", "Net", "Postgres",
                "PrivatePostgres", "Pushes", "PushService", "Schemas", "ServiceKit", "Templates", argumentParser,
                httpTypes, logging, serviceLifecycle, subprocess, systemPackage, unixSignals,
            ]
        ),
        executable("kakao-sandbox", ["EventLoop", "KakaoSandbox", argumentParser, logging]),
        // Used by scripts/bench.
        executable(
            "http-benchmark",
            ["EventLoop", "HTTPClient", "HTTPServer", "JSON", "Net", argumentParser, httpTypes, logging, unixSignals]
        ),
        // Used by scripts/delivery.
        executable(
            "delivery-proof",
            [
                "Accounts", "CLinux", "EventLoop", "HTTPClient", "JSON", "KakaoSandbox", "Locking", "LogOutput",
                "Messages", "Net", "Postgres", "PrivatePostgres", "Pushes", "PushService", "ServiceKit",
                argumentParser, deque, httpTypes, logging, serviceLifecycle, subprocess, systemPackage, unixSignals,
            ]
        ),

        // Helpers shared by several test targets.
        .target(
            name: "TestSupport",
            dependencies: ["EventLoop", "Locking", "Postgres", "PrivatePostgres", logging, subprocess, systemPackage],
            path: "Tests/TestSupport",
            swiftSettings: settings
        ),
        tests("EventLoopTests", ["EventLoop", "Locking"]),
        tests("DeliveryProofTests", ["delivery-proof"]),
        tests("JSONTests", ["JSON"]),
        tests("JournalTests", ["EventLoop", "Journal", "Locking", logging]),
        tests("HTTPServerTests", ["CLibssl", "EventLoop", "HTTPServer", "JSON", "Locking", "Net", httpTypes, logging]),
        tests("HTTPClientTests", ["CLibssl", "EventLoop", "HTTPClient", "Locking", "Net", httpTypes]),
        tests("NetTests", ["CLibssl", "EventLoop", "Locking", "Net", httpTypes]),
        tests("PostgresTests", ["EventLoop", "Locking", "Postgres", "PrivatePostgres", logging]),
        tests(
            "KakaoAPITests",
            ["EventLoop", "HTTPClient", "JSON", "KakaoAPI", "Locking", "Net", "Schemas", httpTypes],
            exclude: ["Fixtures"]
        ),
        tests("SchemasTests", ["JSON", "Schemas"]),
        tests("TemplatesTests", ["JSON", "Templates"]),
        // The tests of the library targets also start the programs.
        tests(
            "KakaoSandboxTests",
            [
                "Crypto", "EventLoop", "HTTPClient", "HTTPServer", "JSON", "KakaoAPI", "KakaoSandbox",
                "kakao-sandbox", "Net", httpTypes, logging,
            ]
        ),
        tests(
            "PushServiceTests",
            [
                "Accounts", "Callbacks", "CLibssl", "Crypto", "Devices", "Doctor", "EventLoop", "HTTPClient",
                "HTTPServer", "JSON", "Journal", "KakaoAPI", "KakaoSandbox", "Locking", "LogOutput", "Messages",
                "Net", "Operations", "Postgres", "PrivatePostgres", "PrometheusMetrics", "Pushes", "PushService",
                "Relay", "Schemas", "ServiceKit", "Sharing", "Templates", "Webhooks", "push-server", argumentParser,
                coreMetrics, httpTypes, logging, serviceLifecycle, subprocess, systemPackage,
            ]
        ),
    ]
)
