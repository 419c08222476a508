/// The known name that a misspelt one was probably meant to be.
package enum Suggestion {
    /// The length of names that are compared, in characters. Longer ones are not typing errors.
    private static let maximumLength = 40

    /// Returns the name with the fewest insertions, deletions and replacements of a character, if they are at most
    /// two, and fewer than the characters of the name.
    @Sendable package static func closest(to name: String, among names: [String]) -> String? {
        guard name.utf8.count <= 4 * maximumLength else { return nil }
        let letters = Array(name.lowercased())
        guard letters.count <= maximumLength else { return nil }
        // Names of another length are not compared: strangers may ask for suggestions.
        let distances = names.lazy.filter { abs($0.count - letters.count) <= 2 }
            .map { (name: $0, distance: distance(letters, Array($0.lowercased()))) }
        guard let best = distances.min(by: { $0.distance < $1.distance }), best.distance <= 2,
            best.distance < letters.count
        else { return nil }
        return best.name
    }

    /// The Levenshtein distance.
    private static func distance(_ left: [Character], _ right: [Character]) -> Int {
        var previous = Array(0...right.count)
        for (row, letter) in left.enumerated() {
            var current = [row + 1]
            for (column, other) in right.enumerated() {
                let replaced = previous[column] + (letter == other ? 0 : 1)
                current.append(min(replaced, previous[column + 1] + 1, current[column] + 1))
            }
            previous = current
        }
        return previous[right.count]
    }
}
