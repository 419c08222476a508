# shellcheck shell=bash
# A fault at every database statement of a push, and at every request to Kakao, breaks no delivery guarantee.
#
# usage: scripts/prove delivery [--short | --real-time | --list] [--point POINT] [--fault FAULT] [--servers 1|2]
#            [--delivery at_least_once|at_most_once] [--after-kill] [--times N] [--seed N] [--workers N] [--logs DIRECTORY]
#            [--verbose]
#
# A run is one push of 20 batches to 2,000 users. One batch is split (-2), one is retried (500), and one meets a rate
# limit (429). Servers with a lease of 1 s reach a private PostgreSQL through a proxy that understands its protocol. A
# run without a fault records the statements; each statement is a point. Then every fault is injected at every point,
# with one server and with two:
#
#   cut-before        the connection is reset before the statement arrives
#   cut-after         the connection is reset after the statement's commit and before its response
#   cut-inside        the connection is reset inside the response
#   late-commit-N     the connection is reset, and the statement commits N leases later
#   stop-N            the server is stopped (SIGSTOP) for N leases
#   kill              the server is killed and started again
#   hang-N, refuse-N  PostgreSQL is unreachable for N leases
#
# A second proxy stands between the servers and Kakao. At each send, the connection is
#
#   request-before    reset before the request arrives
#   request-inside    reset after half of the request's body
#   request-after     reset after Kakao has carried out the request, before the response
#   response-inside   closed after half of the response
#
# For the statements that reclaim batches, the runs begin with the kill of a server (--after-kill).
#
# Checks after each run:
#
#   - Every user is sent, failed or uncertain.
#   - No user was reached twice without may_repeat, and no user was reached twice at all unless a server lost its lease.
#   - No user for whom no byte was sent is uncertain, unless a server lost its lease. A lost connection to Kakao affects at most one
#     batch, which is then uncertain (at_most_once) or sent twice (at_least_once).
#   - At most two batches for each concurrent request and lost lease are uncertain.
#   - The push is done, its counts add up, and no batch or claim is left under any lease.
#
#   scripts/prove delivery --short      every tenth point of each fault, as many as fit into half a minute; part of scripts/test
#   scripts/prove delivery              every point of each fault, and the runs of --real-time
#   scripts/prove delivery --real-time  with the intervals of production: servers stopped for 24 s, PostgreSQL unreachable for 24 s and 75 s
#   scripts/prove delivery --list       list the points, in the order of the runs without a fault
#   scripts/prove delivery --point 3fa1c2#4 --fault cut-after --servers 2 --delivery at_most_once --times 20
#
# Prints a line for each violation, with the options that reproduce it and the servers' logs, and a summary. Exits with
# 1 if there are violations.

install_requirements
swift build --product delivery-proof >/dev/null
# A worker has a few dozen connections, each with two descriptors in this process.
[ "$(ulimit -n)" = unlimited ] || [ "$(ulimit -n)" -ge 4096 ] || ulimit -n 4096
# Each run has a database of its own. In memory, it is created and dropped in a fraction of the time.
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
exec "$(swift build --show-bin-path)/delivery-proof" --migrations "$PWD/migrations" "$@"
