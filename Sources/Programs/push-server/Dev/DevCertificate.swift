import FoundationEssentials
import Glibc
import Net
import Settings

/// The certificate of a development server and its sandbox. It is made once and stored with its key beside the database, so that
/// simulators and phones that trust it also do after a restart.
struct DevCertificate {
    /// The longest that authorities issue certificates for, so that no client objects.
    private static let days = 397
    /// The remaining time at which another certificate is made, in seconds.
    private static let renewalTime = 30 * 86_400

    /// The path of the certificate (PEM), which clients have to trust.
    let file: String
    /// The path of the private key (PEM).
    let keyFile: String
    /// Both, as a server uses them.
    let tls: TLSContext

    /// Reads the certificate of a folder, or makes one if there is none that is valid for long enough and for all names.
    ///
    /// - Parameter names: The host names and numeric addresses by which clients reach the server, besides those of every
    ///   ``SelfSignedCertificate``.
    /// - Throws: ``SettingsError`` for files that cannot be written; ``TLSError`` for a name that is none.
    init(directory: String, names: [String]) throws {
        (file, keyFile) = ("\(directory)/certificate.pem", "\(directory)/certificate.key")
        if let stored = Self.stored(file, keyFile, names) {
            tls = stored
            return
        }
        let made = try SelfSignedCertificate(days: Self.days, names: names)
        tls = try TLSContext(certificateChain: made.certificate, privateKey: made.privateKey)
        try PrivateFile.write(String(decoding: made.privateKey, as: UTF8.self), to: keyFile)
        try PrivateFile.write(String(decoding: made.certificate, as: UTF8.self), to: file)
    }

    private static func stored(_ file: String, _ keyFile: String, _ names: [String]) -> TLSContext? {
        guard let certificate = FileContents.read(file), let key = FileContents.read(keyFile),
            let tls = try? TLSContext(certificateChain: certificate, privateKey: key),
            let end = tls.certificateValidity?.upperBound, end > time(nil) + renewalTime,
            names.allSatisfy(tls.certificateIsValid)
        else { return nil }
        return tls
    }
}
