/// The state of a device. It follows from columns of its row: see the cases.
enum DeviceState: String, CaseIterable, Sendable {
    /// There is no row.
    case unknown
    /// `kakao_revision < revision`: Kakao has yet to confirm a registration.
    case pending
    /// `kakao_revision = revision`: Kakao has confirmed the latest registration.
    case registered
    /// `renewal_revision = revision`, pending: the server itself registers a confirmed token again, to renew it.
    case renewing
    /// `withdrawn`: Kakao has yet to deregister the device.
    case withdrawn
}

/// An event that changes devices, by a statement in this folder.
///
/// Each event locks the row it changes. A change that must reach Kakao increments `revision`. A call to Kakao is made under
/// a lease, and its result is stored only under the same lease.
enum DeviceEvent: CaseIterable, Sendable {
    /// An app or an operator registers the device with a token that Kakao has not confirmed, or no longer has:
    /// ``RegisterDevices``.
    case register
    /// An app registers the device with the token that Kakao has confirmed: ``RepeatRegistrations``.
    case repeatRegistration
    /// Another device is registered with the token: ``RegisterDevices``, ``ConfirmDevices``.
    case displace
    /// An app or an operator withdraws the device: ``WithdrawDevice``.
    case withdraw
    /// An operator withdraws all devices of the user: ``WithdrawUserDevices``.
    case withdrawUser
    /// The user leaves the app: ``WithdrawDepartedDevices``.
    case leave
    /// Kakao reports failures of the token, as many as withdraw the device: ``RecordTokenFailure``.
    case fail
    /// A worker leases the device: ``ClaimPendingDevices``.
    case claim
    /// Kakao confirms the latest change: ``ConfirmDevices``.
    case confirm
    /// Kakao confirms a repeated registration: ``ConfirmRepetitions``.
    case confirmRepetition
    /// Kakao is unavailable: ``PostponeDevice``.
    case postpone
    /// Kakao rejects the latest change: ``RejectRegistration``.
    case reject
    /// Kakao rejects the renewal: ``RejectRenewal``.
    case rejectRenewal
    /// The token is due for renewal: ``RenewDevices``.
    case renew
    /// Kakao does not list the device, or lists it with another token: ``ReconcileDevices``. It also inserts devices that only
    /// Kakao lists, as withdrawn.
    case reconcile
    /// The server knows of a later registration, which PostgreSQL has lost: ``RestoreRegistration``.
    case restore
    /// The server knows of a later withdrawal, which PostgreSQL has lost: ``RestoreWithdrawal``.
    case restoreWithdrawal

    /// The states in which the event changes a device, and the states that it leads to. In any other state its statement changes nothing.
    var transitions: [DeviceState: DeviceState] {
        switch self {
        case .register, .restore:
            [
                .unknown: .pending, .pending: .pending, .registered: .pending, .renewing: .pending,
                .withdrawn: .pending,
            ]
        case .repeatRegistration: [.registered: .registered]
        case .displace, .withdrawUser:
            [.pending: .withdrawn, .registered: .withdrawn, .renewing: .withdrawn, .withdrawn: .withdrawn]
        case .withdraw, .restoreWithdrawal:
            [
                .unknown: .withdrawn, .pending: .withdrawn, .registered: .withdrawn, .renewing: .withdrawn,
                .withdrawn: .withdrawn,
            ]
        case .leave, .fail: [.pending: .withdrawn, .registered: .withdrawn, .renewing: .withdrawn]
        case .claim: [.pending: .pending, .renewing: .renewing, .withdrawn: .withdrawn]
        case .confirm:
            [.pending: .registered, .registered: .registered, .renewing: .registered, .withdrawn: .unknown]
        case .confirmRepetition:
            [.pending: .pending, .registered: .registered, .renewing: .renewing, .withdrawn: .withdrawn]
        case .postpone:
            [.pending: .pending, .registered: .pending, .renewing: .renewing, .withdrawn: .withdrawn]
        case .reject:
            [.pending: .withdrawn, .registered: .withdrawn, .renewing: .withdrawn, .withdrawn: .withdrawn]
        case .rejectRenewal:
            [.pending: .pending, .registered: .registered, .renewing: .registered, .withdrawn: .withdrawn]
        case .renew: [.registered: .renewing]
        case .reconcile: [.registered: .pending]
        }
    }

    /// The columns that the event sets in an existing row.
    var columns: Set<String> {
        switch self {
        case .register:
            Self.description.union(Self.lease).union([
                "push_token", "created_at", "withdrawn", "revision", "attempts", "next_attempt_at", "withdrawal_cause",
            ])
        case .repeatRegistration: Self.description.union(Self.lease)
        case .displace, .withdrawUser: Self.withdrawal.union(Self.lease)
        case .withdraw: Self.withdrawal.union(Self.lease).union(["changed_by"])
        case .leave: Self.withdrawal
        case .fail: Self.withdrawal.union(["failures", "last_failure_at", "failure_dates"])
        case .claim: Self.lease
        case .confirm: Self.lease.union(["kakao_revision", "expires_at", "renew_at", "attempts"])
        case .confirmRepetition: Self.lease.union(["expires_at", "renew_at", "last_failure_at"])
        case .postpone: Self.lease.union(["revision", "attempts", "next_attempt_at"])
        case .reject: Self.withdrawal.union(Self.lease)
        case .rejectRenewal: Self.lease.union(["kakao_revision", "renew_at", "attempts"])
        case .renew: ["renew_at", "renewal_revision", "revision", "attempts", "next_attempt_at"]
        case .reconcile: ["revision", "attempts", "next_attempt_at"]
        case .restore:
            Self.description.union([
                "push_token", "created_at", "withdrawn", "revision", "attempts", "next_attempt_at", "withdrawal_cause",
            ])
        case .restoreWithdrawal: Self.withdrawal
        }
    }

    /// The columns of the function `withdrawal` in the database, the one definition of a withdrawal.
    static let withdrawal: Set = [
        "withdrawn", "revision", "updated_at", "attempts", "next_attempt_at", "withdrawal_cause",
    ]
    private static let lease: Set = ["lease", "lease_ends_at"]
    /// The columns that describe the device, and those that a registration resets.
    private static let description: Set = [
        "locale", "timezone", "app_version", "tags", "updated_at", "authorized_at", "changed_by", "failures",
        "last_failure_at",
    ]
}
