import JSON
import KakaoAPI
import Schemas

extension AppUsers.User {
    /// Returns the user as calls for user information show it.
    ///
    /// - Parameters:
    ///   - isSecure: Whether the addresses of images are https.
    ///   - keys: The members to show; all if `nil`.
    func information(isSecure: Bool, _ keys: [String]?) -> RetrieveUser.Answer {
        func isShown(_ path: String) -> Bool {
            keys?.contains { path == $0 || path.hasPrefix($0.hasSuffix(".") ? $0 : "\($0).") } ?? true
        }
        var shown = JSONObject()
        for scope in AppDefinition.scopes {
            guard let name = scope.consentMember,
                scope.accountMembers.contains(where: { isShown("kakao_account.\($0)") })
            else { continue }
            let isAgreed = scopes.contains(scope.id)
            shown["\(name)_needs_agreement"] = .bool(!isAgreed)
            guard isAgreed else { continue }
            for path in scope.accountMembers { copy(path, to: &shown, isSecure) }
        }
        var properties = JSONObject()
        for (name, value) in self.properties.members where isShown("properties.\(name)") { properties[name] = value }
        return RetrieveUser.Answer(
            userID: id,
            connectedAt: WallClock.text(unixMilliseconds: connectedAt),
            hasSignedUp: hasSignedUp,
            properties: properties.isEmpty ? nil : properties,
            kakaoAccount: shown.isEmpty ? nil : shown
        )
    }

    /// Copies a member of the account, or one of its `profile`.
    private func copy(_ path: String, to shown: inout JSONObject, _ isSecure: Bool) {
        let names = path.split(separator: ".").map(String.init)
        guard names.count == 2 else {
            shown[path] = account[path]
            return
        }
        var inner = shown[names[0]]?.object ?? JSONObject()
        let value = account[names[0]]?[names[1]]
        inner[names[1]] = image(names[1], isSecure: isSecure).map(JSONValue.string) ?? value
        shown[names[0]] = .object(inner)
    }

    /// Returns the address of a profile image, or another text of the profile.
    func image(_ name: String, isSecure: Bool) -> String? {
        guard let url = account["profile"]?[name]?.string else { return nil }
        return isSecure || !url.hasPrefix("https://") ? url : "http" + url.dropFirst("https".count)
    }

    /// Returns the app's scopes and those that the user agreed to in addition.
    ///
    /// - Parameter ids: The scopes to return; all if `nil`.
    func scopes(_ ids: [String]?) -> UserScopes {
        let own = AppDefinition.scopes.map { scope in
            let isAgreed = scopes.contains(scope.id)
            return UserScopes.Scope(
                id: scope.id,
                displayName: scope.displayName,
                type: scope.kind.rawValue,
                isUsed: true,
                isAgreed: isAgreed,
                isRevocable: isAgreed ? !scope.isRequired : nil
            )
        }
        let former = scopes.filter { id in !AppDefinition.scopes.contains { $0.id == id } }.map { id in
            UserScopes.Scope(
                id: id,
                displayName: id,
                type: AppDefinition.Scope.Kind.service.rawValue,
                isUsed: false,
                isAgreed: true,
                isRevocable: true
            )
        }
        return UserScopes(userID: id, scopes: (own + former).filter { ids?.contains($0.id) ?? true })
    }

    /// Returns terms of the app, with the user's consent.
    func consent(to terms: AppDefinition.Terms) -> UserServiceTerms.Term {
        let agreed = self.terms.first { $0.tag == terms.tag }
        return UserServiceTerms.Term(
            tag: terms.tag,
            isRequired: terms.isRequired,
            isAgreed: agreed != nil,
            isRevocable: agreed != nil && !terms.isRequired,
            agreedAt: agreed.map { WallClock.text(unixMilliseconds: $0.at) },
            agreedBy: agreed?.by.rawValue
        )
    }

    /// Returns a page of the shipping addresses: the default one first, then the newest.
    func addresses(_ call: RetrieveShippingAddresses) -> [ShippingAddress] {
        if let id = call.addressID { return addresses.filter { $0.id == id } }
        let size = Int(call.pageSize ?? 10)
        let others = addresses.filter { !$0.isDefault }.sorted { $0.updatedAt ?? 0 > $1.updatedAt ?? 0 }
        let end = call.fromUpdatedAt?.split(separator: ".").first.flatMap { Int64(decimal: String($0)) } ?? 0
        guard end > 0 else {
            return Array((addresses.filter(\.isDefault) + others).prefix(size))
        }
        return Array(others.filter { $0.updatedAt ?? 0 < end }.prefix(size))
    }
}
