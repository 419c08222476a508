/// The `code` of an error that Kakao answers, on every API of kapi.kakao.com (Kakao, "REST API: Response code").
///
/// Codes that are not listed here exist, and more will: a code is a number, and these are names for some.
package struct KakaoErrorCode: RawRepresentable, Sendable, Hashable {
    package let rawValue: Int

    package init(rawValue: Int) {
        self.rawValue = rawValue
    }
}

extension KakaoErrorCode {
    // MARK: Every API

    /// A passing fault inside of Kakao (400).
    package static let internalError = KakaoErrorCode(rawValue: -1)
    /// A parameter is missing or wrong (400). Also: push is not set up for the app.
    package static let invalidParameter = KakaoErrorCode(rawValue: -2)
    /// The feature is not switched on for the app, or not allowed for this Admin key (403).
    package static let featureDisabled = KakaoErrorCode(rawValue: -3)
    /// The account is blocked (403).
    package static let accountBlocked = KakaoErrorCode(rawValue: -4)
    /// The app has no permission for the API (403).
    package static let noPermission = KakaoErrorCode(rawValue: -5)
    /// An action that is not allowed (403).
    package static let actionNotAllowed = KakaoErrorCode(rawValue: -6)
    /// The service behind the API is under maintenance, or has a passing fault (400).
    package static let underMaintenance = KakaoErrorCode(rawValue: -7)
    /// A header field is wrong (400).
    package static let invalidHeader = KakaoErrorCode(rawValue: -8)
    /// The API has ended (400).
    package static let apiTerminated = KakaoErrorCode(rawValue: -9)
    /// A quota is used up: by the minute, the day or the month (400 or 429).
    package static let quotaExceeded = KakaoErrorCode(rawValue: -10)
    /// A paid quota is used up (400).
    package static let paidQuotaExceeded = KakaoErrorCode(rawValue: -11)
    /// The app or its developer is suspended (403).
    package static let suspended = KakaoErrorCode(rawValue: -12)

    // MARK: Users and apps

    /// The user is not linked with the app (400).
    package static let userNotLinked = KakaoErrorCode(rawValue: -101)
    /// The user is linked with the app already (400).
    package static let userAlreadyLinked = KakaoErrorCode(rawValue: -102)
    /// The Kakao Account is dormant or does not exist (400).
    package static let accountMissing = KakaoErrorCode(rawValue: -103)
    /// A user property that the app has not defined (400).
    package static let unknownUserProperty = KakaoErrorCode(rawValue: -201)
    /// There is no such app.
    package static let appMissing = KakaoErrorCode(rawValue: -301)
    /// The app key or the access token is invalid or expired, or the call comes from an address that the app does not
    /// allow (401).
    package static let invalidCredential = KakaoErrorCode(rawValue: -401)
    /// The user has not consented to what the API reads or does (403).
    package static let missingScope = KakaoErrorCode(rawValue: -402)

    // MARK: Age and signatures

    /// The user's age must be verified first.
    package static let ageVerificationRequired = KakaoErrorCode(rawValue: -405)
    /// The user is younger than the app allows (401).
    package static let underAgeLimit = KakaoErrorCode(rawValue: -406)
    /// The user has not signed yet.
    package static let signingIncomplete = KakaoErrorCode(rawValue: -421)
    /// The user did not sign in time.
    package static let signingExpired = KakaoErrorCode(rawValue: -422)
    /// The public key for signing has expired.
    package static let signingKeyExpired = KakaoErrorCode(rawValue: -423)
    /// The user is under 14, and the app does not allow that.
    package static let underFourteen = KakaoErrorCode(rawValue: -451)
    /// The user's age is verified already.
    package static let ageAlreadyVerified = KakaoErrorCode(rawValue: -452)
    /// The user's age was asked for too often.
    package static let ageVerificationLimitExceeded = KakaoErrorCode(rawValue: -453)
    /// The user's age is not the one that was verified before.
    package static let ageMismatch = KakaoErrorCode(rawValue: -480)
    /// The user's connecting information (CI) is not the one that was verified before.
    package static let identityMismatch = KakaoErrorCode(rawValue: -481)

    // MARK: KakaoTalk

    /// The user does not use KakaoTalk (400).
    package static let notTalkUser = KakaoErrorCode(rawValue: -501)
    /// The receiver is no friend of the sender (400).
    package static let notFriend = KakaoErrorCode(rawValue: -502)
    /// The receiver's device takes no such message.
    package static let deviceUnsupported = KakaoErrorCode(rawValue: -504)
    /// The receiver takes no messages (400).
    package static let messagesRefused = KakaoErrorCode(rawValue: -530)
    /// The sender has sent all messages of the month (400).
    package static let senderMonthlyLimitExceeded = KakaoErrorCode(rawValue: -531)
    /// The sender has sent all messages of the day (400).
    package static let senderDailyLimitExceeded = KakaoErrorCode(rawValue: -532)
    /// The receiver has got all messages of the day (400).
    package static let receiverDailyLimitExceeded = KakaoErrorCode(rawValue: -533)
    /// The receiver has got all messages of the day from this sender (400).
    package static let pairDailyLimitExceeded = KakaoErrorCode(rawValue: -536)

    // MARK: KakaoStory and images

    /// The user does not use KakaoStory (400).
    package static let notStoryUser = KakaoErrorCode(rawValue: -601)
    /// An image is larger than is allowed (400).
    package static let imageTooLarge = KakaoErrorCode(rawValue: -602)
    /// A call timed out inside of Kakao's platform (400).
    package static let serverTimeout = KakaoErrorCode(rawValue: -603)
    /// A page could not be scraped (400).
    package static let invalidScrapURL = KakaoErrorCode(rawValue: -604)
    /// There is no such story (400).
    package static let invalidStoryID = KakaoErrorCode(rawValue: -605)
    /// More images than are allowed (400).
    package static let tooManyImages = KakaoErrorCode(rawValue: -606)

    // MARK: The platform

    /// The developer's key is not registered (400).
    package static let unknownDeveloper = KakaoErrorCode(rawValue: -903)
    /// An image is of a format that is not supported (400).
    package static let unsupportedImageFormat = KakaoErrorCode(rawValue: -911)
    /// The platform is under maintenance (503).
    package static let platformMaintenance = KakaoErrorCode(rawValue: -9798)
}
