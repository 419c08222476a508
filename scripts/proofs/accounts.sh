# shellcheck shell=bash
# Kills, stops and lost responses of token refreshes log no user out.
#
# usage: scripts/prove accounts [--accounts N]
#
# N (2,000) accounts are logged in through the sandbox, a third of them with the native app key. Their access tokens live
# for 20 s, their refresh tokens for two minutes, and Kakao replaces a refresh token with every second refresh. The lease of
# a refresh is 3 s. Clients ask three servers on one database for access tokens while
#
#   - 5 % of the refreshes are answered 503, and 2 % of the responses with a new refresh token are lost,
#   - 1 % of the responses come after the end of the lease,
#   - ten times a server is killed and started again, with refreshes in flight,
#   - ten times a server is stopped (SIGSTOP) for longer than the lease, with refreshes in flight.
#
# Checks at the end:
#
#   - Every account is linked and has an access token that Kakao accepts, or its user must log in because Kakao replaced
#     the refresh token and the response was lost.
#   - No refresh token was used after its successor was stored.
#   - No account had two refreshes in flight, except one whose server was stopped and could not end its call.
#
# Prints a table of the events, and exits with 1 if there are violations. scripts/test runs a short form with 120
# accounts.

read_numbers accounts=2000 -- "$@"
install_requirements
say "Building"
swift build --build-tests >/dev/null
# shellcheck disable=SC2154
say "$accounts accounts, three servers"
ACCOUNTS=$accounts exec swift test --skip-build --disable-xctest --filter AccountCrashTests
