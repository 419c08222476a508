/// The app as KakaoTalk treats it: its review, and the quotas of messages. Controls change it while the sandbox runs.
package struct TalkSettings: Sendable {
    /// Whether Kakao has reviewed the app. Before, only members of its team are listed as friends and receive messages.
    package var isReviewed = true
    package var quotas = MessageQuotas()
    /// Whether a message to the user's own chatroom counts as one from the user to the user. Otherwise it counts against
    /// the quota of the app only. Kakao does not document it.
    package var countsMemosAsMessages = false
    /// The custom templates that do not exist. All others do.
    package var removedTemplates: Set<Int64> = []

    package init() {}
}

/// The maximum numbers of messages within a day or a month in Seoul; `nil` for no limit. A message to several receivers
/// counts once for each. (Kakao, "Quota".)
package struct MessageQuotas: Sendable, Equatable {
    /// Of the app, a day.
    package var app: Int? = 30_000
    /// Of an app that is not reviewed, a day.
    package var unreviewedApp: Int? = 30
    /// From one user, a day.
    package var sender: Int? = 100
    /// To one user, a day.
    package var receiver: Int? = 100
    /// From one user to one other, a day.
    package var pair: Int? = 20
    /// From one user, a month. Kakao publishes no number.
    package var senderMonth: Int?

    package init() {}
}
