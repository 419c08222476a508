/// Waits until a condition holds, which it looks at again and again; returns whether it came to.
///
/// For what gives no signal: the kernel's tables. The time is a bound on the failure, not a part of the test.
func waitUntil(_ condition: () -> Bool) async -> Bool {
    let end = ContinuousClock.now + .seconds(20)
    while !condition() {
        guard ContinuousClock.now < end else { return false }
        try? await Task.sleep(for: .milliseconds(1))
    }
    return true
}
