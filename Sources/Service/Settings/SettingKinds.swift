package import Crypto
import FoundationEssentials
package import HTTPServer

extension SettingKind where Value == String {
    /// Any text.
    package static let text = SettingKind("a text", problem: "must be a text.", parse: \.self, text: \.self)

    /// The path of a file or a folder.
    package static let path = SettingKind("a path", problem: "must be a path.", parse: \.self, text: \.self)

    /// An `http` or `https` URL. Trailing slashes are dropped.
    package static let url = SettingKind(
        "a URL",
        problem: "must be a URL that begins with https:// or http://.",
        parse: { text in
            var text = text
            while text.hasSuffix("/") { text.removeLast() }
            let host = text.split(separator: "://", maxSplits: 1).dropFirst().first ?? ""
            guard text.hasPrefix("https://") || text.hasPrefix("http://"), !host.isEmpty,
                text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
            else { return nil }
            return text
        },
        text: \.self
    )
}

extension SettingKind where Value == Int {
    package static func integer(_ range: ClosedRange<Int>) -> SettingKind {
        SettingKind(
            "\(range.lowerBound.grouped) to \(range.upperBound == .max ? "2^63-1" : range.upperBound.grouped)",
            problem: "must be an integer from \(range.lowerBound) to \(range.upperBound).",
            parse: { text in
                guard text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let number = Int(text), range.contains(number)
                else { return nil }
                return number
            },
            text: { String($0) },
            shown: \.grouped
        )
    }

    /// A number of bytes.
    package static func bytes(_ range: ClosedRange<Int>) -> SettingKind {
        let kind = integer(range)
        return SettingKind(
            "\(range.lowerBound.asBytes) to \(range.upperBound.asBytes), in bytes",
            problem: kind.problem,
            parse: kind.parse,
            text: kind.text,
            shown: \.asBytes
        )
    }

    /// The port of a listener.
    package static let port = SettingKind(
        "0 to 65535",
        problem: "must be an integer from 0 to 65535.",
        parse: integer(0...65_535).parse,
        text: { String($0) }
    )
}

extension SettingKind where Value == Int? {
    /// A limit that cannot be switched off.
    package static func limitedInteger(_ range: ClosedRange<Int>) -> SettingKind {
        let kind = SettingKind<Int>.integer(range)
        return SettingKind(
            kind.allowed,
            problem: kind.problem,
            parse: { text in kind.parse(text).map { $0 } },
            text: { $0.map(kind.text) ?? "" },
            shown: { $0.map(kind.shown) ?? "none" }
        )
    }

    /// A limit from 1 to 1,000,000; 0 means none.
    package static let limit = SettingKind(
        "0 to 1,000,000",
        problem: SettingKind<Int>.integer(0...1_000_000).problem,
        parse: { text in SettingKind<Int>.integer(0...1_000_000).parse(text).map { $0 == 0 ? nil : $0 } },
        text: { String($0 ?? 0) },
        shown: { ($0 ?? 0).grouped }
    )
}

extension SettingKind where Value == Int64 {
    /// A positive number of Kakao's.
    package static let identifier = SettingKind(
        "1 to 2^63-1",
        problem: SettingKind<Int>.integer(1...Int.max).problem,
        parse: { SettingKind<Int>.integer(1...Int.max).parse($0).map(Int64.init) },
        text: { String($0) }
    )
}

extension SettingKind where Value == Duration {
    /// A number of seconds from 1 to 3600.
    package static let seconds = seconds(1...3600)

    /// A number of seconds.
    package static func seconds(_ range: ClosedRange<Int>) -> SettingKind {
        let kind = SettingKind<Int>.integer(range)
        return SettingKind(
            "\(range.lowerBound) to \(range.upperBound)",
            problem: kind.problem,
            parse: { kind.parse($0).map { .seconds($0) } },
            text: { String($0.components.seconds) },
            shown: { String($0.components.seconds) }
        )
    }
}

extension SettingKind where Value == Bool {
    package static let boolean = SettingKind(
        "`true` or `false`",
        problem: "must be true or false.",
        parse: { text in
            switch text.lowercased() {
            case "true": true
            case "false": false
            default: nil
            }
        },
        text: { String($0) }
    )
}

extension SettingKind where Value: RawRepresentable<String> & CaseIterable {
    package static var choice: SettingKind {
        let names = Value.allCases.map(\.rawValue)
        return SettingKind(
            names.map { "`\($0)`" }.joined(separator: ", "),
            problem: "must be one of \(names.joined(separator: ", ")).",
            parse: { Value(rawValue: $0) },
            text: \.rawValue
        )
    }
}

extension SettingKind where Value == Secret {
    /// A secret of visible ASCII characters.
    package static func secret(atLeast length: Int = 1) -> SettingKind {
        SettingKind(
            length == 1 ? "a secret" : "a secret of at least \(length) characters",
            isSecret: true,
            problem: length == 1
                ? "must contain only visible ASCII characters, without spaces."
                : "must have at least \(length) characters, only visible ASCII ones, without spaces.",
            parse: { text in
                guard text.utf8.count >= length, text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else { return nil }
                return Secret(text)
            },
            text: { _ in "" }
        )
    }

    /// A secret that is a part of a URL.
    package static let urlPart = SettingKind(
        "a secret of at least 16 letters, digits, `-` and `_`",
        isSecret: true,
        problem:
            "must have at least 16 characters, and may contain only letters, digits, - and _: it is part of a URL.",
        parse: { text in
            let isUnreserved = text.utf8.allSatisfy { octet in
                switch octet {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "_"): true
                default: false
                }
            }
            return text.utf8.count >= 16 && isUnreserved ? Secret(text) : nil
        },
        text: { _ in "" }
    )
}

extension SettingKind where Value == [String] {
    /// Names of hosts, each with a port or without.
    package static let domains = SettingKind(
        "domains, separated by commas",
        problem: "must be a comma-separated list of domains without https://: example.com, www.example.com:8443.",
        parse: { text in
            elements(of: text.lowercased()) { domain in
                domain.utf8.count <= 255
                    && domain.utf8.allSatisfy {
                        $0 > 0x20 && $0 < 0x7F && !"/@*".utf8.contains($0)
                    }
            }
        },
        text: { $0.joined(separator: ", ") },
        shown: { $0.isEmpty ? "none" : "`\($0.joined(separator: ", "))`" }
    )

    /// Up to `count` different names of 1 to 64 characters.
    package static func names(atMost count: Int) -> SettingKind {
        SettingKind(
            "up to \(count) names, separated by commas",
            problem: "must be a comma-separated list of at most \(count) different names of 1 to 64 characters.",
            parse: { text in
                let names = elements(of: text) { (1...64).contains($0.unicodeScalars.count) } ?? []
                return (1...count).contains(names.count) && Set(names).count == names.count ? names : nil
            },
            text: { $0.joined(separator: ", ") },
            shown: { $0.isEmpty ? "none" : "`\($0.joined(separator: ", "))`" }
        )
    }
}

extension SettingKind where Value == [Int64] {
    /// Up to `count` different ids of users.
    package static func userIDs(atMost count: Int) -> SettingKind {
        SettingKind(
            "up to \(count) user ids, separated by commas",
            problem: "must be a comma-separated list of at most \(count) different user ids.",
            parse: { text in
                let id = SettingKind<Int64>.identifier
                let ids = elements(of: text) { id.parse($0) != nil }?.compactMap(id.parse) ?? []
                return (1...count).contains(ids.count) && Set(ids).count == ids.count ? ids : nil
            },
            text: { $0.map(String.init).joined(separator: ", ") },
            shown: { $0.isEmpty ? "none" : "`\($0.map(String.init).joined(separator: ", "))`" }
        )
    }
}

extension SettingKind where Value == [Secret] {
    /// Secrets of visible ASCII characters.
    package static func secrets(atLeast length: Int) -> SettingKind {
        let secret = SettingKind<Secret>.secret(atLeast: length)
        return SettingKind(
            "secrets of at least \(length) characters, separated by commas or lines",
            isSecret: true,
            problem:
                "must be a list of secrets, separated by commas or lines, each of at least \(length) visible ASCII characters.",
            parse: { text in
                elements(of: text.replacing("\n", with: ",")) { secret.parse($0) != nil }.map { $0.map { Secret($0) } }
            },
            text: { _ in "" },
            shown: { _ in "none" }
        )
    }
}

extension SettingKind where Value == EncryptionKey {
    /// A key of AES-256 in Base64.
    package static let encryptionKey = SettingKind(
        "32 bytes in Base64",
        isSecret: true,
        problem: "must be 32 bytes in Base64, as `openssl rand -base64 32` prints them.",
        parse: { Data(base64Encoded: $0).flatMap { EncryptionKey(Array($0)) } },
        text: { _ in "" }
    )
}

extension SettingKind where Value == [EncryptionKey] {
    /// Keys of AES-256 in Base64.
    package static let encryptionKeys = SettingKind(
        "keys of 32 bytes in Base64, separated by commas or lines",
        isSecret: true,
        problem: "must be a list of keys, separated by commas or lines, each 32 bytes in Base64.",
        parse: { text in
            let kind = SettingKind<EncryptionKey>.encryptionKey
            return elements(of: text.replacing("\n", with: ",")) { kind.parse($0) != nil }?.compactMap(kind.parse)
        },
        text: { _ in "" },
        shown: { _ in "none" }
    )
}

extension SettingKind where Value == [String] {
    /// Returns the elements of a comma-separated list without the spaces around them; `nil` if one is invalid.
    package static func list(of text: String, where isValid: (String) -> Bool) -> [String]? {
        elements(of: text, isValid: isValid)
    }
}

/// Returns the elements of a comma-separated list without the spaces around them; `nil` if one is invalid.
private func elements(of text: String, isValid: (String) -> Bool) -> [String]? {
    let elements = text.split(separator: ",", omittingEmptySubsequences: false).map { element in
        let start = element.drop(while: \.isWhitespace)
        return String(start[..<(start.lastIndex { !$0.isWhitespace }.map(start.index(after:)) ?? start.startIndex)])
    }
    return elements.allSatisfy { !$0.isEmpty && isValid($0) } ? elements : nil
}

extension SettingKind where Value == TrustedProxies {
    package static let proxies = SettingKind(
        "addresses and networks (CIDR), separated by commas",
        problem: "must be a comma-separated list of addresses and networks: 127.0.0.1, 10.0.0.0/8, 2001:db8::/32.",
        parse: { TrustedProxies($0) },
        text: { _ in "" },
        shown: { _ in "none" }
    )
}

extension Int {
    /// The number with commas between groups of three digits.
    fileprivate var grouped: String {
        let digits = String(magnitude)
        let groups = stride(from: digits.count, to: 0, by: -3).map { end in
            String(digits.dropLast(digits.count - end).suffix(3))
        }
        return groups.reversed().joined(separator: ",")
    }

    /// The number of bytes in the largest unit that divides it.
    fileprivate var asBytes: String {
        for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")]
        where self >= 1 << shift && self % (1 << shift) == 0 {
            return "\(self >> shift) \(unit)"
        }
        return "\(grouped) bytes"
    }
}
