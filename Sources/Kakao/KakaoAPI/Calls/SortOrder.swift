/// The order of the elements of a list.
package enum SortOrder: String, CaseIterable, Sendable {
    case ascending = "asc"
    case descending = "desc"
}
