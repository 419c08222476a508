import EventLoop
import FoundationEssentials
import JSON
import KakaoAPI
import ServiceTesting
import TestSupport
import Testing

@testable import Accounts
@testable import Callbacks
@testable import Channels
@testable import Devices
@testable import Endpoints
@testable import Identity
@testable import Keys
@testable import Messages
@testable import Postgres
@testable import Pushes
@testable import Runtime
@testable import ServiceKit
@testable import Sharing
@testable import Status
@testable import Webhooks
@testable import push_server

/// Every statement of the service, prepared against the migrated schema.
@Suite struct StatementTests {
    @Test("Every statement of the service is prepared under its name, and runs, on the migrated schema")
    func all() async throws {
        try await TestDatabase.with { database in
            let page = try #require(
                try await AudiencePage.read(.everyone, from: 0, platforms: [], database.pool)
            )
            let statements = try Self.samples(page)
            let names = statements.map { type(of: $0).name }
            #expect(try names.sorted() == Self.declaredNames())
            #expect(names.allSatisfy { $0.utf8.count <= 63 })
            try await database.pool.withConnection { session in
                for statement in statements {
                    try await session.execute(script: "BEGIN")
                    try await session.execute(script: DeviceImportStore.stagingTable)
                    try await session.execute(
                        script: "CREATE TEMPORARY TABLE audience_upload AS SELECT 1::bigint AS user_id"
                    )
                    await #expect(throws: Never.self, "\(type(of: statement).name)") {
                        try await Self.run(statement, on: session)
                    }
                    try await session.execute(script: "ROLLBACK")
                }
                let prepared = try await session.query("SELECT name FROM pg_prepared_statements")
                    .map { try $0.decode(String.self) }
                #expect(Set(names).subtracting(prepared).isEmpty)
            }
        }
    }

    @Test("Every decoder reads as many columns as its statement returns, each as a type that it can have")
    func decoders() async throws {
        try await TestDatabase.with { database in
            let page = try #require(
                try await AudiencePage.read(.everyone, from: 0, platforms: [], database.pool)
            )
            try await database.pool.withConnection { session in
                for statement in try Self.samples(page) {
                    try await session.execute(script: "BEGIN")
                    try await session.execute(script: DeviceImportStore.stagingTable)
                    try await session.execute(
                        script: "CREATE TEMPORARY TABLE audience_upload AS SELECT 1::bigint AS user_id"
                    )
                    await #expect(throws: Never.self, "\(type(of: statement).name)") {
                        try await Self.decodeSample(of: statement, on: session)
                    }
                    try await session.execute(script: "ROLLBACK")
                }
            }
        }
    }

    /// Decodes a row of made-up values, since most statements find none in an empty database.
    private static func decodeSample<Statement: PostgresStatement>(
        of statement: Statement,
        on session: PostgresSession
    ) async throws {
        guard Statement.Row.self != Never.self else { return }
        let rows = try await session.query(text: Statement.sql.text, statement.parameters)
        let sample = try rows.withSampleRow([
            "action": "update", "app_key": "rest", "content_type": "image/png", "kind": "pending", "name": "a",
            "push_type": "fcm", "refreshed_by": "server", "state": states[Statement.name] ?? "linked",
            "user_type": "app",
        ])
        _ = try Statement.decode(sample[0])
    }

    /// The states that the statements of other objects than accounts return.
    private static let states = [
        "ClaimWebhooks": "delivering", "ListEndpointStates": "delivering", "StoreEndpointChange": "delivering",
        "CreateCustomerUpload": "done", "ListCustomerUploads": "done", "ReadCustomerUpload": "done",
    ]

    private static func run<Statement: PostgresStatement>(
        _ statement: Statement,
        on session: PostgresSession
    ) async throws {
        do {
            _ = try await session.query(statement) as [Statement.Row]
        } catch let error as PostgresError where error.code == .decoding && Statement.Row.self == Never.self {
            // It returns rows that are of no interest.
        }
    }

    /// The names of the types that the sources of the service declare as statements.
    private static func declaredNames() throws -> [String] {
        var names: [String] = []
        for text in try TestFiles.swiftFiles(in: "Sources", except: ["Engine/Postgres", "Tools/delivery-proof"]) {
            for line in text.split(separator: "\n") {
                let words = line.split { $0 == " " || $0 == ":" }.drop { $0 == "package" }.map { $0 }
                guard words.first == "struct", words.count > 2 else { continue }
                if words[2].hasSuffix("Statement") { names.append(String(words[1])) }
            }
        }
        return names.sorted()
    }

    // A value of each statement.
    private static func samples(_ page: AudiencePage) throws -> [any PostgresStatement] {
        let (id, now) = (UUID(), Date())
        let name = try #require(AudienceName("a"))
        let key = DeviceKey(userID: 1, deviceID: "d", pushType: .fcm)
        let registration = DeviceRegistration(key: key, pushToken: "t")
        let device = PendingDevice(key: key, pushToken: "t", isWithdrawn: false, revision: 1, lease: id)
        let confirmation = DeviceConfirmation(device: device, expiresAt: now, renewAt: nil)
        let token = PushToken(userID: 1, deviceID: "d", pushType: .fcm, pushToken: "t", createdAt: "", updatedAt: "")
        let change = DeviceChange(key: key, pushToken: "t", isWithdrawn: true, changedAt: now)
        let failure = TokenFailure(userID: 1, pushToken: "t", date: now, receivedAt: now)
        let error = KakaoError(kind: .refused(status: 400, code: nil, message: ""))
        let known = KnownBatches.Batch(pushID: id, number: 1, claims: 1, origin: nil, isSent: true)
        let claim = BatchClaim(
            pushID: id,
            number: 1,
            userIDs: [1, 2],
            attempts: 1,
            claims: 1,
            origin: nil,
            lease: id,
            shared: 1..<3
        )
        let push = NewPush(audience: .users([1]), message: PushMessage(text: "{}", version: .v1))
        let idempotency = Idempotency(
            key: "k",
            operatorKey: [],
            digest: [UInt8](repeating: 0, count: 32)
        )
        let preparation = PreparationStore.Preparation(
            pushID: id,
            audience: .everyone,
            exclusion: ExcludedUsers(),
            needsConsent: false,
            platforms: [],
            isRetry: false,
            position: 0
        )
        let channelChange = ChannelChange(
            person: .user(1),
            channelPublicID: "c",
            channelUUID: nil,
            relation: .added,
            updatedAt: now
        )
        let upload = CustomerUpload(
            id: id,
            channelPublicID: "c",
            fileID: 1,
            type: .app,
            action: .update,
            createdBy: nil,
            createdAt: now
        )
        let part = CustomerPart(uploadID: id, number: 1, claims: 1, attempts: 0, call: nil)
        let accounts =
            accountSamples(id, now) + messageSamples(id, now, idempotency) + (try webhookSamples(id, now))
        let devices: [any PostgresStatement] = [
            RegisterDevices(registrations: [registration]),
            RepeatRegistrations(registrations: [registration]),
            ConfirmRepetitions(confirmations: [confirmation]),
            ConfirmDevices(confirmations: [confirmation]),
            WithdrawDevice(key: key, keyName: nil, addsUnknown: true),
            WithdrawUserDevices(userID: 1, registeredUntil: now),
            AddWithdrawnDevices(tokens: [token], withdrawnAt: now),
            ClaimPendingDevices(limit: 1),
            PostponeDevice(device: device, delay: .seconds(1)),
            RejectRegistration(device: device),
            RejectRenewal(device: device),
            RenewDevices(activeWithinDays: 1),
            ReconcileDevices(userID: 1, listed: [token], isDryRun: false),
            RecordTokenFailure(failure: failure, limit: 1),
            LookUpDevices(userIDs: [1]),
            FindUnknownUsers(userIDs: [1]),
            ListPushTokens(userIDs: [1], after: key, limit: 1),
            ListDevices(userID: 1, after: nil, limit: 1),
            FindDevices(userID: 1, deviceID: "d"),
            ListDevicesForExport(after: nil, limit: 1),
            ReadTransactionTime(),
            CreateImportedDevices(step: ImportStep(after: 0, limit: 1, start: now)),
            ApplyImportedDevices(step: ImportStep(after: 0, limit: 1, start: now)),
            FindContestedTokens(after: 0, last: 1, limit: 1, soleTransaction: nil),
            WithdrawContestedDevices(tokens: ["t"]),
            ReleaseImportedDevices(limit: 1, perSecond: 1, seconds: 1),
            FindLostDevices(changes: [change]),
            RestoreRegistration(registration: registration, registeredAt: now, hasKakaoUserIDs: true),
            RestoreWithdrawal(change: change),
            FindLostDepartures(departures: [1: now]),
            RestoreDeparture(userID: 1, leftAt: now),
            DeleteFormerDevices(userID: 1), DeleteOldFormerDevices(limit: 1),
            RecordErasure(userID: 1, erasedAt: now),
            FindLostErasures(erasures: [1: now]),
            ListErasedUsers(maximumAge: .seconds(1)),
            DeleteOldErasures(limit: 1),
            ReadReplication(),
            ReadTimeline(),
            ListKakaoDevices(after: nil, limit: 1),
            TagChannelUsers(userIDs: [1], tag: "t"),
            StoreChannelChanges(changes: [channelChange]),
            ListChannelsOfUser(userID: 1, after: nil, limit: 1),
            DeleteChannelsOfUser(userID: 1, storedUntil: now),
            DeleteDepartedRelations(departures: [UserEvent(userID: 1, kind: .left, type: "unlink", happenedAt: now)]),
            DeleteOldChannelRelations(retentionDays: 1, limit: 1),
            CreateCustomerUpload(upload: upload),
            ListCustomerUploads(before: nil, limit: 1),
            ReadCustomerUpload(id: id),
            CancelCustomerUpload(id: id),
            ClaimCustomerPart(lease: id),
            ListOpenCustomerParts(lease: id),
            ReleaseCustomerPart(part: part, delay: .seconds(1), reason: "r"),
            EndCustomerPart(part: part, accepted: 1),
            FailCustomerUpload(part: part, reason: "r"),
            RenewCustomerLease(id: id, duration: .seconds(1)),
            FindCustomerParts(),
            FindOpenCustomerPart(lease: id),
            FindOrphanedCustomerLeases(),
            ReclaimCustomerParts(leases: [id]),
            EraseUserFromUploads(userID: 1),
            ExpireCustomerUploads(days: 1, limit: 1),
            DeleteOldCustomerUploads(retentionDays: 1, limit: 1),
        ]
        let hours = AdvertisingHours().parameter(in: "Asia/Seoul")
        let pushes: [any PostgresStatement] = [
            CreatePush(push: push, idempotency: idempotency, response: [], now: now),
            FindIdempotentRequest(idempotency: idempotency),
            FindInvalidObject(push: push),
            FindPendingDevices(userIDs: [1]),
            ListUnsettledPushes(ids: [id]),
            HaltPreparation(pushID: id, reason: ""),
            FindTaggedUsers(userIDs: [1], tags: ["t"]),
            FindConsentingUsers(userIDs: [1], consent: ExcludedUsers.Consent(tag: "t", platforms: [])),
            ListAudiencePartsBetween(partsID: id, users: 1...2, after: 0, limit: 1),
            ListReachedParts(pushID: id, users: 1...2, after: 0, limit: 1),
            ReadUsersReachedByBatch(pushID: id),
            PausePush(id: id, operator: nil),
            ResumePush(id: id),
            CancelPush(id: id, operator: nil, hours: hours),
            ApprovePush(id: id, key: .setting),
            RejectPush(id: id, key: .setting, reason: nil, hours: hours),
            ExpireProposals(),
            FindLastTest(message: push.message),
            RetryPush(id: id, includesUncertain: true),
            ReadPush(id: id, hours: hours),
            ReadPushRequest(id: id),
            ListPushes(filter: PushReads.Filter(), limit: 1, hours: hours),
            FindAdvertisingBegin(hours: hours, sendAt: now),
            ListPushBatches(pushID: id, state: nil, after: 0, limit: 1),
            FindPush(id: id),
            ListZoneChanges(name: "Asia/Seoul", since: now, until: now),
            FindPushUser(pushID: id, userID: 1),
            SearchPushesForUser(userID: 1, since: now, before: nil, limit: 1),
            RecordPushOpens(opens: [PushOpen(pushID: id, userID: 1)], slot: 1),
            DeletePushOpens(pushID: id, limit: 1),
            DeleteOrphanedOpens(retentionDays: 1, limit: 1),
            DeleteOrphanedOpenCounts(retentionDays: 1, limit: 1),
            DeleteOpensOfErasedUsers(limit: 1),
            DeleteOpensOfUsers(users: [(id: 1, until: nil)]),
            SearchInbox(requests: [InboxRequest(userID: 1, since: nil, before: nil)], days: 1),
            ReadInboxMessages(ids: [id]),
            FindExportedPush(id: id),
            ListSkippedUsers(pushID: id, causes: [.noDevice], limit: 1),
            ReadUsersBesideBatch(pushID: id),
            ListUsersOfBatches(pushID: id, state: "failed", after: 0, limit: 1),
            ListWaitingBatches(pushID: id, mayRepeat: false, after: 0, limit: 1),
            FindDepartedUsers(userIDs: [1], since: now, haveUnlinked: true),
            ListUnclaimedUsers(pushID: id, part: 0, start: 0, limit: 1),
            ListPreparations(limit: 1, hours: hours),
            StorePushPart(
                preparation: preparation,
                page: page,
                users: 1,
                ids: UserIDBytes([1]),
                skipped: SkippedUsers(noDevice: [2])
            ),
            RetryBatches(pushID: id, limit: 1),
            FindAudienceParts(name: name),
            ReadListedPhones(after: 0, limit: 1, platforms: ["fcm"], userIDs: [1], pushID: nil),
            ReadPartPhones(after: 0, limit: 1, platforms: ["fcm"], partsID: id),
            ListAudienceParts(partsID: id, after: 0, limit: 1),
            ReadPhoneRange(partsID: id, end: 1, users: 1...2, platforms: ["fcm"], limit: 1),
            ReadPhones(after: 0, limit: 1, platforms: ["fcm"]),
            ReadTaggedPhones(after: 0, limit: 1, platforms: ["fcm"], tags: ["t"], isAll: true),
            ListActivePushes(known: [id], hours: hours),
            ClaimBatches(shares: [BatchStore.Share(pushID: id, batches: 1)], lease: id, hours: hours),
            RecordBatchResults(items: [RecordBatchResults.Item(claim: claim, result: .failed(error))], slot: 1),
            SettleBatches(items: [SettleBatches.Item(claim: claim, isSent: true)], slot: 1),
            SplitBatch(claim: claim, result: .split(error), isRejectedRepeatedly: false),
            EndProbe(pushID: id),
            HaltPush(claim: claim, reason: ""),
            LockPush(id: id),
            HaltRejectedPush(id: id, reason: ""),
            FinishPushes(ids: [id]),
            ExpirePush(id: id, hours: hours),
            FindExpiredLeases(queue: "pushes", own: id),
            DeleteExpiredLeases(leases: [id]),
            FindDeletedLeases(leases: [id]),
            AddRowsOfSharedBatches(leases: [id]),
            ReclaimBatches(leases: [id]),
            FindLostBatches(pushID: id, batches: [known]),
            AddRowsOfUnclaimedBatches(pushID: id, batches: [known]),
            AddRowsOfUnsettledBatches(pushID: id, batches: [known]),
            RestoreBatches(pushID: id, batches: [known]),
            PresumeBatches(pushID: id, batches: [known], beyond: 1),
            FindBegunPushes(),
            FindClaimedBatch(claim: ClaimFile.Claim(lease: id, claim.id)), ConfirmLease(id: id),
            ConfirmRun(process: id, run: "a"), RecordLostCommits(reason: "a", earlier: nil, by: "b"),
            StopSender(reason: "a", by: "b"), StartSender(), ReadSenderStop(), ListServers(), AddKakaoCalls(calls: 1),
            RecordSenderHalt(reason: "a"),
            ReadKakaoCalls(), AcquireLease(id: id, queue: "pushes", duration: .seconds(1)),
            RenewPushLease(id: id, duration: .seconds(1)),
            LockLease(id: id),
            DeleteLease(id: id),
            FindOpenBatch(lease: id),
            FindOrphanedLeases(),
            ListOpenBatches(lease: id),
            PickExpiredPush(retentionDays: 1),
            DeletePushBatches(pushID: id, limit: 1),
            DeletePushClaims(pushID: id, limit: 1),
            DeletePushParts(pushID: id, limit: 1),
            DeleteSkippedUsers(pushID: id, limit: 1),
            DeletePush(id: id),
            SendNotification(channel: "c", payload: ""),
        ]
        let event = KakaoEvent(
            id: id,
            key: "k",
            type: "unlink",
            userID: 1,
            referrerType: nil,
            payload: Array("{}".utf8),
            raw: nil,
            receivedAt: now
        )
        let callback = LinkCallback(
            id: id,
            resourceID: nil,
            chatType: "",
            hashChatID: "",
            templateID: nil,
            args: Array("{}".utf8),
            signature: nil,
            raw: nil,
            receivedAt: now
        )
        let hash = [UInt8](repeating: 0, count: 32)
        let operatorKey = NewOperatorKey(
            name: "",
            scopes: [],
            expiresAt: nil,
            by: .setting,
            idempotency: Idempotency(key: "", operatorKey: [], digest: [])
        )
        let others: [any PostgresStatement] = [
            InsertAudienceParts(partsID: id),
            UpsertAudience(name: name, partsID: id, users: 1),
            FindAudience(name: name),
            ListAudiences(after: nil, limit: 1),
            DeleteAudience(name: name),
            DeleteUnusedAudienceParts(limit: 1),
            InsertLinkCallbacks(callbacks: [callback], statisticsArgs: ["a"]),
            CountMissingCalls(calls: [.linkCallback(callback)]),
            DeleteOldLinkCallbacks(retentionDays: 1, limit: 1),
            DeleteOldEvents(retentionDays: 1, limit: 1),
            RemoveUserFromLinkCallbacks(step: ArgumentErasure(userID: 1, argument: "", after: id)),
            ListLinkCallbacks(limit: 1),
            InsertEvents(events: [event], now: now),
            WithdrawDepartedDevices(
                departures: [UserEvent(userID: 1, kind: .left, type: "unlink", happenedAt: now)]
            ),
            NotifyOfRevokedTokens(userIDs: [1]),
            DeleteEvents(userID: 1),
            ListEvents(storedSince: nil, before: nil, limit: 1),
            ListEventsOfType(type: "unlink", storedSince: nil, before: nil, limit: 1),
            ListEventsOfUser(userID: 1, type: nil, storedSince: nil, before: nil, limit: 1),
            FindValidOperatorKey(sha256: []),
            FindKeyRejection(sha256: []),
            RecordOperatorKeyUses(uses: [[]: now]),
            InsertOperatorKey(key: operatorKey), FindOperatorKeyOfRequest(new: operatorKey),
            InsertSession(id: id, sha256: hash, keyID: id, keyDigest: hash, replaced: [], address: "::1"),
            FindSession(sha256: [], settingDigest: []), EndSession(id: id, keyID: id), ListSessions(keyID: id),
            DeleteOldSessions(limit: 1),
            ListOperatorKeys(after: id, limit: 1),
            RevokeOperatorKey(id: UUID()),
            DeleteOperatorKey(id: id), OperatorKeyIsRevocable(id: id),
            OperatorKeysAreRelated(key: id, creator: id),
            InsertAuditRecords(records: [AuditRecord(ofCommandLike: "test")]),
            DeleteAuditRecords(ids: [id]),
            ListAuditRecords(keyID: id, since: now, limit: 1),
            ListAuditRecordsForward(since: now, until: nil, after: nil, limit: 1),
            DeleteOldAuditRecords(retentionDays: 1, limit: 1),
            ReadPushQueue(limit: 1, hours: AdvertisingHours().parameter(in: "Asia/Seoul")),
            CountPendingDevices(limit: 1),
            CountUnfinishedPushes(limit: 1, hours: AdvertisingHours().parameter(in: "Asia/Seoul")),
            CountUnfinishedMessages(limit: 10),
            ListStoppedPushes(), ListWaitingMessages(limit: 10),
            ReadServerVersion(), ReadServerPlace(),
            PingDatabase(),
            ReadDatabaseClock(),
            ReadTime(timeZone: "Asia/Seoul"),
            CommitMessage(),
            ListDatabaseWaits(), FindNewestLease(), ReadLeaseEnd(process: UUID()),
            ReadRolePrivileges(),
            ReadConnectionLimit(),
            ListDisabledSettings(names: ["fsync", "autovacuum"]),
        ]
        let share = Share(id: ShareID(id), campaign: nil, templateID: nil, args: [:], links: [], expiresAt: now)
        let statistics = StatisticsQuery(
            dimension: "all",
            by: .day,
            since: now,
            until: now,
            timeZone: "UTC",
            values: 1
        )
        let shares: [any PostgresStatement] = [
            InsertShare(share: share),
            FindShareLinks(id: share.id),
            FindShare(id: share.id),
            ListShares(before: nil, limit: 1),
            ListSharesOfCampaign(campaign: "", before: nil, limit: 1),
            InsertLandings(landings: [Landing(shareID: share.id, visitor: [])], statisticsArgs: ["a"]),
            InsertConversions(
                conversions: [Conversion(shareID: share.id, event: "", userID: 1)],
                statisticsArgs: ["a"]
            ),
            DeleteConversions(userID: 1),
            RemoveUserFromShares(step: ArgumentErasure(userID: 1, argument: "", after: id)),
            DeleteOldVisits(limit: 1),
            CheckTimeZone(timeZone: "UTC", since: now, until: now),
            ReadShareStatistics(query: statistics),
            ReadShareStatisticsOfDays(query: statistics),
            MergeShareEvents(limit: 1),
        ]
        return try devices + pushes + others + shares + accounts + images(id)
    }

    private static func messageSamples(
        _ id: UUID,
        _ now: Date,
        _ idempotency: Idempotency
    ) -> [any PostgresStatement] {
        let quotas = MessageSettings().quotas
        let message = NewMessage(sender: 1, receivers: .me, content: .custom(1, args: nil))
        let claim = ReceiverClaim(
            messageID: id,
            position: 0,
            claims: 1,
            attempts: 1,
            lease: id,
            uuid: "u",
            isAlone: false,
            lastCode: nil
        )
        let key = MessageQuotaKey(.pair, sender: 1, uuid: "u")
        let known = KnownReceivers.Receiver(messageID: id, position: 0, claims: 1, sender: 1, isSent: true)
        return [
            CreateMessage(message: message, idempotency: idempotency, response: [], now: now),
            FindIdempotentMessage(idempotency: idempotency),
            ReadMessage(id: id),
            ListMessages(state: nil, sender: nil, before: nil, limit: 1),
            ListReceivers(messageID: id, state: nil, after: 0, limit: 1),
            LockMessageQuotas(timeZone: "UTC"),
            ClaimReceivers(lease: id, requests: 1, quotas: quotas),
            RecordReceivers(items: [RecordReceivers.Item(claim: claim, result: .sent)], quotas: quotas),
            ReclaimReceivers(leases: [id]),
            FindLostReceivers(receivers: [known]),
            RestoreReceivers(receivers: [known]),
            FindClaimedReceiver(claim: ClaimFile.Claim(lease: id, claim.id)),
            ClaimResolutions(limit: 1),
            ReadUnresolvedUsers(messageID: id),
            ResolveReceivers(messageID: id, uuids: [(1, "u")]),
            PostponeResolution(messageID: id, delay: .zero),
            FailReceivers(messageID: id, refusal: Refusal(reason: .loginRequired)),
            FinishMessages(ids: [id]),
            FindFinishedMessages(limit: 1),
            CancelMessage(id: id),
            ExpireMessages(limit: 1),
            RenewMessageLease(id: id, duration: .zero),
            FindOpenReceiver(lease: id),
            FindOrphanedMessageLeases(),
            ListOpenReceivers(lease: id),
            CountMessages(change: 1, sender: 1, uuids: ["u", nil], day: "2026-11-23"),
            ReadMessageQuotas(keys: [key], quotas: quotas),
            DeleteMessagesOfSender(userID: 1),
            DeleteReceiversOfUser(userID: 1),
            DeleteOldMessages(days: 1, limit: 1),
            DeleteOldMessageQuotas(limit: 1),
        ]
    }

    private static func accountSamples(_ id: UUID, _ now: Date) -> [any PostgresStatement] {
        let digest = [UInt8](repeating: 0, count: 32)
        let sealed = TokenVault.Sealed(bytes: [1], keyID: "k")
        let issued = IssuedTokens(
            tokens: AccountTokens(accessToken: "a", refreshToken: "r"),
            accessTokenLifetime: 1,
            refreshTokenLifetime: 1,
            scopes: ["s"]
        )
        let claim = RefreshClaim(userID: 1, lease: id, appKey: .rest, sealed: sealed, attempts: 0, isVerified: true)
        let login = Login(userID: 1, appKey: .rest, refreshedBy: .server, issued: issued, isVerified: true)
        let unlink = PendingUnlink(userID: 1, lease: id, attempts: 0, requestedAt: Date())
        let event = UserEvent(userID: 1, kind: .left, type: "t", happenedAt: now)
        return [
            StoreLogin(login: login, sealed: sealed),
            LockUser(userID: 1),
            CancelUnlink(userID: 1),
            FindPendingUnlink(userID: 1),
            ExpireAccessToken(userID: 1, pause: .zero),
            VerifyAccount(userID: 1, refreshTokenSHA256: digest),
            ClaimRefresh(userID: 1, tokens: [1], duration: .seconds(30)),
            ClaimRenewals(limit: 1, duration: .seconds(30), keyIDs: ["k"], appKeys: [.rest]),
            StoreRefresh(claim: claim, usedSHA256: digest, issued: issued, sealed: sealed),
            RejectRefresh(claim: claim, usedSHA256: digest),
            PostponeRefresh(claim: claim, pause: .seconds(1)),
            ExpireAccounts(limit: 1),
            EndAccounts(events: [event]),
            DeleteAccount(userID: 1, linkedUntil: nil),
            LookUpTokens(userIDs: [1]),
            FindAccount(userID: 1),
            ListAccounts(state: .linked, endsBefore: now, after: 1, limit: 1),
            ListOtherKeys(keyID: "k", after: 0, limit: 1),
            ListTokenSamples(),
            StoreReencryption(changes: [Reencryption(userID: 1, old: sealed, new: sealed)]),
            ClaimLoginCode(sha256: digest, request: digest, claim: id, lifetime: .seconds(1)),
            ReleaseLoginCode(sha256: digest, claim: id),
            StoreLoginResult(sha256: digest, request: nil, claim: nil, result: [1], lifetime: .seconds(1)),
            RedeemTicket(sha256: digest),
            DeleteExpiredLoginResults(limit: 1),
            StorePendingUnlink(userID: 1, requestedAt: nil, lease: id, duration: .seconds(1)),
            RecordUnlink(userID: 1, requestedAt: now), FindLostUnlinks(unlinks: [1: now]), DeleteOldUnlinks(limit: 1),
            ClaimUnlink(lease: id, duration: .seconds(1)),
            PostponeUnlink(unlink: unlink, delay: .seconds(1)),
            DeletePendingUnlink(unlink: unlink),
            CountAccounts(),
        ]
    }

    private static func images(_ id: UUID) throws -> [any PostgresStatement] {
        let bytes = TestImage.png()
        let image = NewImage(
            id: id,
            header: try ImageHeader(bytes),
            sha256: [UInt8](repeating: 0, count: 32),
            bytes: bytes
        )
        let claim = ImageClaim(id: id, lease: id, format: .png, bytes: bytes)
        return [
            FindImage(id: id),
            FindImageByContent(sha256: image.sha256),
            ListImages(before: nil, limit: 1),
            InsertImage(image: image, maximumTotal: 1000),
            ClaimImage(id: id, lease: id),
            CompleteImage(claim: claim, url: "https://k.kakaocdn.net/a.png"),
            ReleaseImage(claim: claim),
            DeleteKeptImage(id: id),
        ]
    }

    private static func webhookSamples(_ id: UUID, _ now: Date) throws -> [any PostgresStatement] {
        let url = try #require(WebhookURL("https://example.com/webhooks"))
        let secret = try #require(WebhookSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
        let types = WebhookTypes()
        let endpoint = WebhookEndpoint(name: "a", url: url, secrets: [secret], types: types)
        let change = EndpointChange(status: .failing, error: "a", retryAfter: .seconds(1))
        var claim = WebhookClaim(
            event: id,
            claims: 1,
            endpoint: "a",
            attempts: 0,
            isProbe: false,
            readAt: 0,
            message: nil
        )
        claim.next = .retried(after: .seconds(1))
        let attempt = WebhookAttempt(outcome: .rejected, status: 500, text: "", duration: .zero)
        return [
            ReadLinkCallbackWebhooks(events: [id]), ReadEventWebhooks(events: [id]), ReadPushWebhooks(events: [id]),
            ReadMessageWebhooks(events: [id]), ReadAccountWebhooks(events: [id]), ReadDeviceWebhooks(events: [id]),
            ReadSenderWebhooks(events: [id]),
            StoreEndpoint(endpoint: endpoint), RemoveEndpoints(time: .seconds(1)), DropWebhooks(limit: 1),
            DeleteRemovedEndpoints(),
            StoreEndpointChange(endpoint: "a", change: change, intervals: WebhookIntervals()),
            RestoreEndpoint(endpoint: "a"), ListEndpointStates(),
            ClaimWebhooks(
                lease: id,
                order: [WebhookSchedule.Room(endpoint: "a", webhooks: 1)],
                probeTime: .seconds(1)
            ),
            RecordWebhooks(results: [QueueResult(claim, .attempted(attempt))]), ListOpenWebhooks(lease: id),
            RenewWebhookLease(id: id, duration: .seconds(1)), FindOpenWebhook(lease: id), FindOrphanedWebhookLeases(),
            ReclaimWebhooks(leases: [id]),
            ListUnacceptedWebhooks(before: nil, endpoint: nil, limit: 1), RetryWebhook(id: id),
            StoreReplays(since: now, until: now, types: types, endpoint: nil), ListReplays(endpoint: nil, limit: 1),
            StepReplay(id: id, limit: 1, maximumWaiting: 1), DeleteReplays(), RestoreReplayedWebhooks(limit: 1),
            DeleteWebhooksOfUser(userID: 1, hasKakaoUserIDs: true), DeleteOldWebhooks(retentionDays: 1, limit: 1),
        ]
    }
}
