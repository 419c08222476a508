# shellcheck shell=bash
# A rolling upgrade from the latest release, and the way back, lose nothing while servers of both versions share the database.
#
# usage: scripts/prove upgrade [--from DIRECTORY] [--users N]
#
# Two servers of the latest release (the programs of its tag, which are built first, or those in DIRECTORY) get registrations and Link
# callbacks all the time. While two pushes to USERS (10,000) users each are in flight, one server after the other is replaced
# by one of this version: the first of them migrates the database, and the other server goes on with it. Then the same
# happens in the other direction. Checks:
#
#   - Every server that is started becomes ready, and the servers in between stay ready.
#   - Both pushes of each direction reach every user once.
#   - What was answered is stored, and devices are at Kakao as the last answered request left them.
#
# Exits with 1 if a check fails.

# shellcheck disable=SC2034,SC2154
old=
options=()
while [ $# -gt 0 ]; do
    case $1 in
        --from) old=${2:?a folder of programs} && shift ;;
        *) options+=("$1") ;;
    esac
    shift
done
read_numbers users=10000 -- "${options[@]}"
install_requirements python3
# shellcheck source=scripts/servers.sh
. scripts/servers.sh
# shellcheck source=scripts/cluster.sh
. scripts/cluster.sh
export OPERATOR_KEY=operator-key-of-the-upgrade-0123456789

build push-server kakao-sandbox
new=$programs
if [ -z "$old" ]; then
    tag=$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null) ||
        fail "there is no tag of a release: name the programs of the version before with --from"
    check_out "$tag"
    cd "$checkout"
    build push-server
    old=$programs
    cd "$OLDPWD"
fi
say "From $("$old/push-server" --version) to $("$new/push-server" --version)"

# replace FOLDER: replaces the servers, one after the other, by those of another version.
replace() {
    local server port
    for server in server-1 server-2; do
        port=$(url "$server")
        stop "$server"
        programs=$1
        start_server "$server" HTTP_PORT="${port##*:}"
        wait_ready "$server"
        check_running server-1 server-2
        echo "$server is now $("$1/push-server" --version)"
    done
}

upgrade() {
    open_primary
    programs=$old
    open_servers
    say "Upgrade"
    push_through upgrade "$users" kept replace "$new"
    say "The way back"
    push_through way-back "$users" kept replace "$old"
    close_part kept
}

run_parts upgrade
