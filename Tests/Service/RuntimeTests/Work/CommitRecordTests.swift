import EventLoop
import Testing

@testable import Runtime

@Suite struct CommitRecordTests {
    private let start = MonotonicTime.now

    private func time(_ seconds: Double) -> MonotonicTime { start + .seconds(seconds) }

    @Test("Without a commit, and while one takes less than three seconds, commits count as healthy")
    func patience() {
        var record = CommitRecord()
        #expect(record.state(at: time(0)) == .committing)
        let commit = record.begin(at: time(0))
        #expect(record.state(at: time(2.9)) == .committing)
        #expect(record.state(at: time(3)) == .stalled)
        record.committed(commit)
        #expect(record.state(at: time(3)) == .committing)
    }

    @Test("A commit that hangs or fails says nothing if a later one succeeds")
    func later() {
        var record = CommitRecord()
        let hanging = record.begin(at: time(0))
        let later = record.begin(at: time(2))
        record.committed(later)
        #expect(record.state(at: time(10)) == .committing)
        record.failed(hanging, isReadOnly: false)
        #expect(record.state(at: time(10)) == .committing)
    }

    @Test("A failure counts until a later commit succeeds, whatever else is in flight")
    func failure() {
        var record = CommitRecord()
        let first = record.begin(at: time(0))
        let failing = record.begin(at: time(2.1))
        record.failed(failing, isReadOnly: true)
        #expect(record.state(at: time(2.1)) == .readOnly)
        record.committed(first)
        #expect(record.state(at: time(2.1)) == .readOnly)
        let other = record.begin(at: time(2.2))
        record.failed(other, isReadOnly: false)
        #expect(record.state(at: time(2.2)) == .stalled)
        record.committed(record.begin(at: time(3)))
        #expect(record.state(at: time(3)) == .committing)
    }

    @Test("A failure soon after a commit says nothing: another event loop has not opened its connections again")
    func reopening() {
        var record = CommitRecord()
        record.committed(record.begin(at: time(0)))
        record.failed(record.begin(at: time(2)), isReadOnly: true)
        #expect(record.state(at: time(2)) == .committing)
        record.failed(record.begin(at: time(2.1)), isReadOnly: true)
        #expect(record.state(at: time(2.1)) == .readOnly)
    }

    @Test("A commit that ends with the server says nothing")
    func cancelled() {
        var record = CommitRecord()
        record.cancelled(record.begin(at: time(0)))
        #expect(record.state(at: time(10)) == .committing)
    }
}
