// swift-tools-version: 6.2

import PackageDescription

let package = Package(
    name: "flyingfox-server",
    platforms: [.macOS(.v26)],
    dependencies: [
        .package(url: "https://github.com/swhitty/FlyingFox.git", from: "0.27.0")
    ],
    targets: [
        .executableTarget(
            name: "App",
            dependencies: [.product(name: "FlyingFox", package: "FlyingFox")]
        )
    ]
)
