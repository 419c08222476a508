import KakaoAPI

extension PushVersion {
    /// The end of the names of operations; empty for version 1.
    package var suffix: String { self == .v1 ? "" : rawValue.uppercased() }
}
