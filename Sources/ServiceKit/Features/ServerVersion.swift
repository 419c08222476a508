/// The version of the program.
package enum ServerVersion {
    package static let current = "0.1.0"
}
