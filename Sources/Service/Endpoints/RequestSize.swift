/// Limits of request bodies.
package enum RequestSize {
    /// The limit for requests of phones and Kakao, in bytes: far more than they send.
    package static let small = 64 * 1024
}
