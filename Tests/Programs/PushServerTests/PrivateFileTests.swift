import FoundationEssentials
import Glibc
import TestSupport
import Testing

@testable import push_server

/// Files with secrets, as `push-server dev` writes them.
@Suite struct PrivateFileTests {
    @Test("A file is new, whatever lies at its temporary path: neither a link is followed nor are permissions kept")
    func leftovers() throws {
        let folder = try TemporaryFolder.make()
        let (path, other) = ("\(folder)/operator.key", "\(folder)/other")
        func contents(_ path: String) -> String? {
            (try? Data(contentsOf: URL(filePath: path))).map { String(decoding: $0, as: UTF8.self) }
        }
        func mode(_ path: String) -> mode_t {
            var status = stat()
            return lstat(path, &status) == 0 ? status.st_mode : 0
        }
        try Data("other".utf8).write(to: URL(filePath: other))
        #expect(symlink(other, "\(path).new") == 0)
        try PrivateFile.write("first", to: path)
        #expect(contents(other) == "other")
        #expect(contents(path) == "first")
        #expect(mode(path) == S_IFREG | 0o600)

        try Data("left".utf8).write(to: URL(filePath: "\(path).new"))
        chmod("\(path).new", 0o666)
        try PrivateFile.write("second", to: path)
        #expect(contents(path) == "second")
        #expect(mode(path) == S_IFREG | 0o600)
    }
}
