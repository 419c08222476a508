import JSON
import KakaoAPI
import Locking
import Schemas

/// Kakao Login: the calls about users, which read and change ``AppUsers``.
struct UserCalls: Sendable {
    let settings: KakaoSandboxSettings
    let users: AppUsers
    let tokens: TokenStore
    /// The sandbox's own URL, which is known once the sandbox listens.
    let url: Locked<String>
    private let listing = CallLimit(callsPerMinute: 100)

    func add(to server: inout KakaoCallServer) {
        server.on(RetrieveUser.self, for: users) { call, user, _ in
            user.information(isSecure: call.secureResource == true, call.propertyKeys)
        }
        server.on(RetrieveAppUsers.self, users: \.targetIDs) { call, _ in
            call.targetIDs.compactMap { userID in
                let user = users.user(userID)
                return user.isLinked ? user.information(isSecure: false, call.propertyKeys) : nil
            }
        }
        server.on(RetrieveUserIDs.self) { call, _ throws(KakaoRefusal) in
            try listing.countCall()
            return page(call)
        }
        addChanges(to: &server)
        addScopes(to: &server)
        addTerms(to: &server)
        server.on(RetrieveShippingAddresses.self, for: users) { call, user, _ in
            let isAgreed = user.scopes.contains(AppDefinition.shippingAddress)
            return RetrieveShippingAddresses.Answer(
                userID: user.id,
                needsAgreement: !isAgreed,
                addresses: isAgreed ? user.addresses(call) : nil
            )
        }
    }

    private func addChanges(to server: inout KakaoCallServer) {
        server.on(LogOutUser.self, for: users, beforeSignUp: true) { _, user, caller in
            if let token = caller.accessToken { tokens.revoke(token) } else { tokens.revoke(userID: user.id) }
            return UserIDAnswer(userID: user.id)
        }
        server.on(UnlinkUser.self, for: users, beforeSignUp: true) { _, user, _ in
            user.isLinked = false
            if user.hasSignedUp != nil { user.hasSignedUp = false }
            tokens.revoke(userID: user.id)
            return UserIDAnswer(userID: user.id)
        }
        server.on(SignUpUser.self, for: users, beforeSignUp: true) { call, user, _ throws(KakaoRefusal) in
            guard user.awaitsSignUp else { throw .error(.userAlreadyLinked, "already registered") }
            try store(call.properties ?? JSONObject(), of: &user)
            user.hasSignedUp = true
            user.isLinked = true
            return UserIDAnswer(userID: user.id)
        }
        server.on(UpdateUserProfile.self, for: users) { call, user, _ throws(KakaoRefusal) in
            try store(call.properties, of: &user)
            return UserIDAnswer(userID: user.id)
        }
    }

    private func addScopes(to server: inout KakaoCallServer) {
        server.on(RetrieveScopes.self, for: users) { call, user, _ in user.scopes(call.scopes) }
        server.on(RevokeScopes.self, for: users) { call, user, _ throws(KakaoRefusal) in
            let agreed = user.scopes(call.scopes).scopes?.filter(\.isAgreed) ?? []
            guard !agreed.isEmpty else { throw .badParameter("There is no scopes to revoke.") }
            let fixed = agreed.filter { $0.isRevocable == false }.map(\.id).joined(separator: ", ")
            guard fixed.isEmpty else {
                throw .error(.featureDisabled, status: 403, "[\(fixed)] is not revocable.")
            }
            user.scopes.removeAll { call.scopes.contains($0) }
            return user.scopes(nil)
        }
    }

    private func addTerms(to server: inout KakaoCallServer) {
        server.on(RetrieveServiceTerms.self, for: users) { call, user, _ throws(KakaoRefusal) in
            if let tag = call.tags?.first(where: { tag in !AppDefinition.terms.contains { $0.tag == tag } }) {
                throw .badParameter("invalid tag [\(tag)]")
            }
            let terms = AppDefinition.terms.filter { call.tags?.contains($0.tag) ?? true }
                .map { user.consent(to: $0) }
            return UserServiceTerms(userID: user.id, terms: call.result == .all ? terms : terms.filter(\.isAgreed))
        }
        server.on(RetrieveAgreedTerms.self, for: users) { call, user, _ in
            let agreed = AppDefinition.terms.compactMap { terms in
                user.consent(to: terms).agreedAt.map { RetrieveAgreedTerms.Agreed(tag: terms.tag, agreedAt: $0) }
            }
            let all = AppDefinition.terms.map { terms in
                RetrieveAgreedTerms.Terms(
                    tag: terms.tag,
                    createdAt: AppDefinition.termsCreatedAt,
                    updatedAt: AppDefinition.termsCreatedAt
                )
            }
            return RetrieveAgreedTerms.Answer(userID: user.id, agreed: agreed, all: call.extra == .all ? all : nil)
        }
        server.on(RevokeServiceTerms.self, for: users) { call, user, _ in
            let revoked = AppDefinition.terms.map { user.consent(to: $0) }
                .filter { $0.isRevocable == true && call.tags.contains($0.tag) }.map(\.tag)
            user.terms.removeAll { revoked.contains($0.tag) }
            return UserServiceTerms(
                userID: user.id,
                terms: revoked.map { UserServiceTerms.Term(tag: $0, isAgreed: false) }
            )
        }
        server.on(UpgradeServiceTerms.self, for: users) { call, user, _ in
            let terms = AppDefinition.terms.filter { call.tags.contains($0.tag) }
            for term in terms where !user.terms.contains(where: { $0.tag == term.tag }) {
                user.terms.append(AppUsers.AgreedTerms(tag: term.tag, by: .call))
            }
            return UserServiceTerms(
                userID: user.id,
                terms: terms.map { term in
                    let consent = user.consent(to: term)
                    return UserServiceTerms.Term(
                        tag: consent.tag,
                        isAgreed: true,
                        agreedAt: consent.agreedAt,
                        agreedBy: consent.agreedBy
                    )
                }
            )
        }
    }

    /// Stores properties as texts.
    ///
    /// - Throws: Error -201 for keys that the app has not defined.
    private func store(_ properties: JSONObject, of user: inout AppUsers.User) throws(KakaoRefusal) {
        let unknown = properties.members.map(\.name).filter { !AppDefinition.propertyKeys.contains($0) }
        guard unknown.isEmpty else {
            let names = unknown.joined(separator: ", ")
            throw .error(.unknownUserProperty, "user property not found ([\(names)] for appId=\(settings.appID))")
        }
        for (name, value) in properties.members { user.properties[name] = .string(value.anyText) }
    }

    // MARK: The list of ids

    private func page(_ call: RetrieveUserIDs) -> RetrieveUserIDs.Answer {
        let isDescending = call.order == .descending
        let ids = isDescending ? users.linkedIDs.reversed() : users.linkedIDs
        let limit = Int(call.limit ?? 100)
        let start =
            call.fromID.map { first in
                ids.firstIndex { isDescending ? $0 <= first : $0 >= first } ?? ids.count
            } ?? 0
        let end = min(start + limit, ids.count)
        func address(_ index: Int) -> String {
            let order = call.order ?? .ascending
            return "\(url.withLock { $0 })/v1/user/ids?limit=\(limit)&order=\(order.rawValue)&from_id=\(ids[index])"
        }
        return RetrieveUserIDs.Answer(
            userIDs: Array(ids[start..<end]),
            beforeURL: start > 0 ? address(max(0, start - limit)) : nil,
            afterURL: end < ids.count ? address(end) : nil
        )
    }
}

extension KakaoCallServer {
    /// Serves a call for its user, who is linked to the app: see ``AppUsers/withUser(of:beforeSignUp:_:)``.
    mutating func on<Call: KakaoCall>(
        _: Call.Type,
        for users: AppUsers,
        beforeSignUp: Bool = false,
        _ handle: @escaping @Sendable (Call, inout AppUsers.User, Caller) throws(KakaoRefusal) -> Call.Answer
    ) {
        on(Call.self) { call, caller throws(KakaoRefusal) in
            try users.withUser(of: caller, beforeSignUp: beforeSignUp) { user throws(KakaoRefusal) in
                try handle(call, &user, caller)
            }
        }
    }
}

/// Kakao's limit for a call: a number within a minute, which begins with the first call.
private final class CallLimit: Sendable {
    private let callsPerMinute: Int
    private let state = Locked((start: Int64(0), calls: 0))

    init(callsPerMinute: Int) {
        self.callsPerMinute = callsPerMinute
    }

    /// - Throws: Error -10 if the limit is reached.
    func countCall() throws(KakaoRefusal) {
        let now = WallClock.unixMilliseconds
        let calls = state.withLock { state in
            if now - state.start >= 60_000 { state = (now, 0) }
            state.calls += 1
            return state.calls
        }
        guard calls <= callsPerMinute else { throw .quotaExceeded(status: 429) }
    }
}
