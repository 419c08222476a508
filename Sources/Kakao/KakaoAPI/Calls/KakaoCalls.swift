/// All calls of Kakao's API that this package makes, relays and simulates.
package enum KakaoCalls {
    package static let all: [any KakaoCall.Type] = [
        RegisterPushToken.self, DeregisterPushToken.self, RetrievePushTokens.self, SendPush.self,
        RequestToken.self,
        AccessTokenInfo.self, RetrieveUser.self, LogOutUser.self, UnlinkUser.self, SignUpUser.self,
        UpdateUserProfile.self, RetrieveScopes.self, RevokeScopes.self, RetrieveServiceTerms.self,
        RevokeServiceTerms.self, UpgradeServiceTerms.self, RetrieveAgreedTerms.self, RetrieveShippingAddresses.self,
        RetrieveAppUsers.self, RetrieveUserIDs.self,
        TalkProfile.self, RetrieveFriends.self, RetrieveChannels.self, RetrieveChannelRelations.self,
        RetrievePlusFriends.self, RetrieveChannelsOfUsers.self,
        CreateCustomerFile.self, RetrieveCustomerFiles.self, UpdateCustomers.self, DeleteCustomers.self,
        SendDefaultMemo.self, SendCustomMemo.self, SendScrapMemo.self,
        SendDefaultMessage.self, SendCustomMessage.self, SendScrapMessage.self,
        ValidateDefaultTemplate.self, ValidateCustomTemplate.self, ValidateScrapTemplate.self, UploadImage.self,
        ScrapeImage.self, DeleteImage.self, ValidateChannel.self,
        CheckStoryUser.self, RetrieveStoryProfile.self, RetrieveLinkInfo.self, UploadStoryImages.self, PostNote.self,
        PostPhoto.self, PostLink.self, RetrieveStories.self, RetrieveStory.self, DeleteStory.self,
        RetrieveAddresses.self,
        RetrieveCalendars.self, CreateCalendar.self, UpdateCalendar.self, DeleteCalendar.self,
        CreateEvent.self, RetrieveEvents.self, RetrieveEvent.self, UpdateEvent.self, UpdateGuestEvent.self,
        DeleteEvent.self, RetrieveHolidays.self,
        CreatePublicEvent.self, RetrievePublicEvents.self, RetrievePublicEvent.self, UpdatePublicEvent.self,
        DeletePublicEvent.self, FollowPublicEvent.self,
        RetrieveSubscribableCalendars.self, SubscribeCalendar.self, UnsubscribeCalendar.self,
        CreateTask.self, RetrieveTasks.self, CompleteTask.self, DeleteTask.self,
    ]
}
