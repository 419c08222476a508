import ArgumentParser

/// The option of a command that asks on a terminal before it does what cannot be undone.
struct ConfirmationOptions: ParsableArguments {
    @Flag(
        help: """
            Do not ask for a confirmation on a terminal. Without a terminal, approve, copy, retry --uncertain and send --everyone \
            require it.
            """
    )
    var yes = false

    /// Whether the operator can be asked, and is to be.
    var asks: Bool { !yes && Terminal.isInteractive }

    /// Requires `--yes` if the operator cannot be asked.
    ///
    /// - Parameter what: What needs the confirmation, such as an option.
    /// - Throws: `ValidationError` if there is neither a terminal nor `--yes`.
    func require(for what: String) throws {
        guard !yes, !Terminal.isInteractive else { return }
        throw ValidationError("\(what) needs --yes when there is no terminal for the confirmation.")
    }
}
