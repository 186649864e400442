// swift-tools-version:5.9
import PackageDescription

let package = Package(
    name: "Sample",
    targets: [
        .target(name: "Sample"),
        .testTarget(name: "SampleTests", dependencies: ["Sample"]),
    ]
)
