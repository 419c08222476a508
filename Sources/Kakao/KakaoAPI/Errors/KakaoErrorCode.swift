import JSON

/// The `code` of a Kakao error, shared by all APIs of kapi.kakao.com (Kakao, "REST API: Response code").
///
/// The list is incomplete and Kakao may add codes, so a code is stored as a number. The constants name those that the
/// server or the sandbox uses.
package struct KakaoErrorCode: RawRepresentable, Sendable, Hashable {
    package let rawValue: Int

    package init(rawValue: Int) {
        self.rawValue = rawValue
    }

    /// Reads the member `code` of a JSON object. Returns `nil` if there is no negative integer: all of Kakao's codes are
    /// negative, and those of other systems are not.
    init?(of body: JSONValue?) {
        guard let code = body?["code"]?.integer, code < 0 else { return nil }
        self.init(rawValue: Int(code))
    }
}

extension KakaoErrorCode {
    // MARK: Every API

    /// A temporary fault inside Kakao (400).
    package static let internalError = KakaoErrorCode(rawValue: -1)
    /// A parameter is missing or invalid (400). Also: push is not set up for the app.
    package static let invalidParameter = KakaoErrorCode(rawValue: -2)
    /// The feature is not enabled for the app, or this Admin key may not use it (403).
    package static let featureDisabled = KakaoErrorCode(rawValue: -3)
    /// The account is blocked (403).
    package static let accountBlocked = KakaoErrorCode(rawValue: -4)
    /// The app has no permission for the API (403).
    package static let noPermission = KakaoErrorCode(rawValue: -5)
    /// The action is not allowed (403).
    package static let actionNotAllowed = KakaoErrorCode(rawValue: -6)
    /// The service behind the API is under maintenance or has a temporary fault (400).
    package static let underMaintenance = KakaoErrorCode(rawValue: -7)
    /// The API has been discontinued (400).
    package static let apiTerminated = KakaoErrorCode(rawValue: -9)
    /// A quota per minute, day or month is used up (400 or 429).
    package static let quotaExceeded = KakaoErrorCode(rawValue: -10)
    /// A paid quota is used up (400).
    package static let paidQuotaExceeded = KakaoErrorCode(rawValue: -11)
    /// The app or its developer is suspended (403).
    package static let suspended = KakaoErrorCode(rawValue: -12)

    // MARK: Users and apps

    /// The user is not linked to the app (400).
    package static let userNotLinked = KakaoErrorCode(rawValue: -101)
    /// The user is already linked to the app (400).
    package static let userAlreadyLinked = KakaoErrorCode(rawValue: -102)
    /// The app has not defined this user property (400).
    package static let unknownUserProperty = KakaoErrorCode(rawValue: -201)
    /// The app key or access token is invalid or expired, or the app does not allow calls from this IP address (401).
    package static let invalidCredential = KakaoErrorCode(rawValue: -401)
    /// The user has not consented to the access that the API needs (403).
    package static let missingScope = KakaoErrorCode(rawValue: -402)

    // MARK: Age and signatures

    /// The user is younger than the app allows (401).
    package static let underAgeLimit = KakaoErrorCode(rawValue: -406)

    // MARK: KakaoTalk

    /// The user does not use KakaoTalk (400).
    package static let notTalkUser = KakaoErrorCode(rawValue: -501)
    /// The receiver is not a friend of the sender (400).
    package static let notFriend = KakaoErrorCode(rawValue: -502)
    /// The receiver's device does not support this message.
    package static let deviceUnsupported = KakaoErrorCode(rawValue: -504)
    /// The event does not exist (400).
    package static let eventMissing = KakaoErrorCode(rawValue: -520)
    /// The receiver has blocked messages (400).
    package static let messagesRefused = KakaoErrorCode(rawValue: -530)
    /// The sender's monthly message limit is reached (400).
    package static let senderMonthlyLimitExceeded = KakaoErrorCode(rawValue: -531)
    /// The sender's daily message limit is reached (400).
    package static let senderDailyLimitExceeded = KakaoErrorCode(rawValue: -532)
    /// The receiver's daily message limit is reached (400).
    package static let receiverDailyLimitExceeded = KakaoErrorCode(rawValue: -533)
    /// The daily limit of messages from this sender to this receiver is reached (400).
    package static let pairDailyLimitExceeded = KakaoErrorCode(rawValue: -536)

    // MARK: KakaoTalk channels

    /// The channel does not exist (400).
    package static let channelMissing = KakaoErrorCode(rawValue: -541)
    /// A fault inside the API of channels (400).
    package static let channelFault = KakaoErrorCode(rawValue: -815)

    // MARK: KakaoStory and images

    /// The user does not use KakaoStory (400).
    package static let notStoryUser = KakaoErrorCode(rawValue: -601)
    /// An image exceeds the size limit (400).
    package static let imageTooLarge = KakaoErrorCode(rawValue: -602)
    /// A call timed out inside Kakao's platform (400).
    package static let serverTimeout = KakaoErrorCode(rawValue: -603)
    /// A page could not be scraped (400).
    package static let invalidScrapURL = KakaoErrorCode(rawValue: -604)
    /// The story does not exist (400).
    package static let invalidStoryID = KakaoErrorCode(rawValue: -605)
    /// There are too many images (400).
    package static let tooManyImages = KakaoErrorCode(rawValue: -606)

    // MARK: Platform

    /// An image has an unsupported format (400).
    package static let unsupportedImageFormat = KakaoErrorCode(rawValue: -911)
    /// The platform is under maintenance (503).
    package static let platformMaintenance = KakaoErrorCode(rawValue: -9798)
}
