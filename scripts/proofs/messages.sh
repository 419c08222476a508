# shellcheck shell=bash
# Kills, stops and lost responses let no receiver of a KakaoTalk message be reached twice.
#
# usage: scripts/prove messages [--senders N]
#
# Each of N (400) senders has 50 friends and sends one message to all of them; every fourth message is at_least_once, the
# others are at_most_once. While three servers on one database send the messages,
#
#   - 5 % of the requests are answered 503,
#   - 2 % of the connections are dropped after the body, half of them after the message has reached its receivers,
#   - a third of the messages does not reach some of its receivers (-530, -502, -1),
#   - ten times a server is killed (SIGKILL) and started again, with requests in flight,
#   - twice a server is stopped (SIGSTOP) for longer than its lease,
#   - PostgreSQL is restarted (immediate).
#
# Checks at the end:
#
#   - Every receiver is sent, failed with a reason, or uncertain.
#   - Nobody was reached twice, except at_least_once with may_repeat. Nobody who failed was reached.
#   - The quotas count all messages that have arrived.
#
# Prints a table of the outcomes, and exits with 1 if there are violations. scripts/test runs a short form with 12
# senders.

read_numbers senders=400 -- "$@"
install_requirements
say "Building"
swift build --build-tests >/dev/null
# shellcheck disable=SC2154
say "$senders senders, three servers"
SENDERS=$senders exec swift test --skip-build --disable-xctest --filter MessageCrashTests
