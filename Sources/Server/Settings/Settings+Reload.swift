import Settings

extension Settings {
    /// The names of the settings that a reload found changed.
    package struct Changes: Sendable, Equatable {
        /// Those that are in use now.
        package let applied: [String]
        /// Those that take effect after a restart.
        package let pending: [String]
    }

    /// Adopts those changed values of `new` that need no restart.
    mutating func adopt(_ new: Settings) -> Changes {
        let changed = Self.all.filter { $0.differs(self, new) }
        for setting in changed where setting.isReloadable { setting.copy(new, &self) }
        return Changes(
            applied: changed.filter(\.isReloadable).map(\.name),
            pending: changed.filter { !$0.isReloadable }.map(\.name)
        )
    }
}
