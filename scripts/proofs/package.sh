# shellcheck shell=bash
# The Debian packages install, run under systemd, crash with a report, upgrade and are removed as docs/installing.md says.
#
# usage: scripts/prove package [--packages FOLDER]
#
#   --packages FOLDER   the folder of finished packages of scripts/package, in place of a build
#
# Installs the packages in a new Debian 12, boots it with systemd in a container without a network (systemd-nspawn), and runs the
# commands of docs/installing.md there, block after block. Checks:
#
#   - systemd-analyze accepts the units, with an exposure of at most 1.5. The instances' units differ only in their names.
#   - The manual has no error, and a first push arrives at the sandbox.
#   - Without valid settings, the server does not start again.
#   - A thread that crashes leaves a report with function, file and line. A server that hangs is killed. Both start again.
#   - While the server restarts, no connection is refused; nor while a later version is installed.
#   - A second app has its own port and journal.
#   - The upgrade keeps the settings. Removing keeps the database, the journal and the secrets, and says so.
#
# The new Debian is in .local/package-proof, which is made once. Prints what was checked, and exits with 1 if a check fails.

# shellcheck disable=SC2119,SC2154,SC2329
packages=
while [ $# -gt 0 ]; do
    [[ $1 == --packages && -n ${2:-} ]] || fail "unknown argument $1; see --help"
    packages=$2
    shift 2
done
[ "$(id -u)" = 0 ] || fail "run it as root: it boots a container"
install_missing mmdebstrap systemd-container man-db groff-base python3
# shellcheck source=scripts/servers.sh
. scripts/servers.sh
trap 'end_container; end; remove_groups' EXIT

checked() { printf '  %s\n' "$*"; }

# MARK: The container

base=.local/package-proof/debian.tar
root=$work/root

# Makes a Debian with systemd and PostgreSQL, once.
make_base() {
    [ ! -f "$base" ] || return 0
    say "Making a Debian 12"
    mkdir -p "${base%/*}"
    mmdebstrap --quiet --format=tar --variant=apt --include=systemd,systemd-sysv,postgresql,curl,man-db bookworm "$base.new"
    mv "$base.new" "$base"
}

# Boots the container. Sets $leader, the process id of its systemd.
boot() {
    local options=() tree
    if [ ! -d /run/systemd/system ]; then
        # Its processes have control groups of their own, beneath one that is removed at the end.
        options=(--keep-unit)
        for tree in "${groups[@]}"; do
            mkdir -p "$tree"
            echo "$BASHPID" >"$tree/cgroup.procs"
        done
    fi
    start container systemd-nspawn --quiet --register=no "${options[@]}" --private-network --directory "$root" --boot --console=pipe
    for tree in "${groups[@]}"; do
        [ ! -d "$tree" ] || echo "$BASHPID" >"${tree%/*}/cgroup.procs"
    done
    wait_for container has_booted
}
groups=(/sys/fs/cgroup/{unified,systemd}/push-server-proof)
has_booted() {
    leader=$(pgrep --parent "${processes[container]}") && [[ $(inside systemctl is-system-running) == running ]]
}

# Kills the systemd of the container, and with it everything in there.
end_container() { [ -z "${leader:-}" ] || kill -9 "$leader" 2>/dev/null || true; }

remove_groups() {
    local tree
    for tree in "${groups[@]}"; do
        [ ! -d "$tree" ] || find "$tree" -depth -type d -exec rmdir {} +
    done
}

# inside COMMAND [ARGUMENT ...]: runs a command in the container.
inside() {
    nsenter --target "$leader" --mount --uts --ipc --net --pid --cgroup -- \
        env --ignore-environment HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

# page SECTION FIRST LAST: runs blocks of commands of a section of docs/installing.md in the container, in one shell.
page() {
    blocks "$@" >"$root/root/commands.sh"
    inside bash -euo pipefail -c 'cd /root && . ./commands.sh' >"$work/page" 2>&1 ||
        fail "the commands of \"$1\" failed: $(grep -v "^\(ok\|skipped\) " "$work/page" | tail --lines 20)"
}

blocks() {
    awk -v section="$1" -v first="$2" -v last="$3" '
        /^##/ { current = $0; sub(/^#+ /, "", current); number = 0 }
        /^```$/ { shown = 0 }
        shown { print }
        /^```sh$/ && current == section { number++; shown = number >= first && number <= last }' docs/installing.md
}

log() { inside journalctl --unit push-server --output cat --no-pager; }
property() { inside systemctl show --property "$1" --value "${2:-push-server}"; }
is_alive() { inside curl --silent --fail --output /dev/null "http://127.0.0.1:$1/healthz"; }
is_ready() { inside curl --silent --fail --output /dev/null "http://127.0.0.1:$1/readyz"; }

# MARK: Checks

make_packages() {
    local version
    if [ -z "$packages" ]; then
        packages=$work/packages
        scripts/package --output "$packages"
    fi
    version=$(<VERSION)
    mkdir "$work/old"
    cp "$packages"/{push-server,kakao-sandbox}_"$version"_amd64.deb "$work/old"
    cp "$packages/push-server_${version}_amd64.deb" "$work/new.deb"
    # The version before is this one with a lower number, until there is a released one.
    dpkg-deb --raw-extract "$work/new.deb" "$work/repacked"
    sed --in-place "s/^Version: .*/Version: $version~before/" "$work/repacked/DEBIAN/control"
    dpkg-deb --root-owner-group -Znone --build "$work/repacked" "$work/old/push-server_${version}_amd64.deb" >/dev/null
    rm -r "$work/repacked"
}

check_install() {
    mkdir "$root"
    tar --extract --file "$base" --directory "$root"
    cp "$work"/old/*.deb "$root/root"
    blocks "The first push" 1 1 >"$root/root/commands.sh"
    chroot "$root" env --unset=TMPDIR bash -euc 'cd /root && export DEBIAN_FRONTEND=noninteractive && . ./commands.sh' >"$work/install" 2>&1 ||
        fail "the installation failed: $(tail --lines 20 "$work/install")"
    grep -q 'systemctl enable --now push-server' "$work/install" || fail "the installation does not say what comes next"
    [ ! -e "$root/etc/systemd/system/multi-user.target.wants/push-server.service" ] || fail "the installation enables the service"
    checked "installed in a chroot: nothing is started or enabled, and the next step is printed"
}

check_files() {
    local name problems exposure
    for name in push-server kakao-sandbox; do
        problems=$(MANROFFOPT=-ww man --warnings --local-file "$root/usr/share/man/man1/$name.1.gz" 2>&1 >/dev/null || true)
        [ -z "$problems" ] || fail "the manual of $name has errors: $problems"
    done
    for name in service socket; do
        sed 's|push-server/%i$|push-server|; s|push-server@%i|push-server|; s|/%i\.|/push-server.|; s| (%i)$||' "deploy/systemd/push-server@.$name" |
            diff <(grep -v '^#' "deploy/systemd/push-server.$name") <(grep -v '^#' /dev/stdin) >&2 ||
            fail "push-server@.$name differs from push-server.$name in more than its names"
    done
    problems=$(inside systemd-analyze verify push-server.service push-server.socket push-server@shop.service push-server@shop.socket 2>&1 || true)
    [ -z "$problems" ] || fail "systemd-analyze verify: $problems"
    exposure=$(inside systemd-analyze security --no-pager --offline=true --threshold=15 /usr/lib/systemd/system/push-server.service) ||
        fail "the exposure is above 1.5: $exposure"
    checked "manuals and units are valid; $(grep -o 'exposure level.*: [0-9.]*' <<<"$exposure" | sed 's/ for.*:/:/')"
}

check_first_push() {
    # The commands are those of the service, but a hanging server is found sooner.
    mkdir -p "$root/etc/systemd/system/push-server.service.d"
    printf '[Service]\nWatchdogSec=5\n' >"$root/etc/systemd/system/push-server.service.d/proof.conf"
    inside systemctl daemon-reload
    page "The first push" 2 6
    grep -q '"outcome":"delivered"' "$work/page" || fail "the push has not arrived at the sandbox: $(tail --lines 5 "$work/page")"
    inside systemctl status --no-pager push-server >"$work/status"
    checked "first push delivered; systemctl status: $(sed -n 's/^ *Status: //p' "$work/status")"
    [ "$(inside stat --format '%U %a' /var/lib/push-server/journal)" = 'push-server 700' ] || fail "the journal is open to others"
    page Ports 1 1
    is_alive 8081 || fail "the second port does not respond"
    page Commands 1 1
    checked "a second port from a drop-in; commands of root read the settings and the secrets"
}

check_restart() {
    local before
    before=$(property MainPID)
    probe
    inside sed --in-place 's/^  # level: info/  level: notice/' /etc/push-server/push-server.yaml
    inside systemctl reload push-server
    wait_until 5 "the reload" is_logged "Settings reloaded"
    inside systemctl restart push-server
    [ "$(property MainPID)" != "$before" ] || fail "the server was not restarted"
    end_probe "a restart"
    checked "reload and restart: none of $probes connections refused"
}
# Reads the log to its end: grep --quiet would end the pipe before.
is_logged() { log | grep "$1" >/dev/null; }

# probe: calls the server again and again, until end_probe WHAT, which fails if a call failed.
probe() {
    rm -f "$root/root/ended"
    start probe nsenter --target "$leader" --mount --net --pid -- bash -c '
        until [ -e /root/ended ]; do
            curl --silent --show-error --max-time 30 --write-out "%{http_code}\n" --output /dev/null http://127.0.0.1:8080/healthz
        done'
}
end_probe() {
    sleep 1
    touch "$root/root/ended"
    wait "${processes[probe]}" || true
    unset 'processes[probe]'
    probes=$(grep -c 200 "$work/probe.out")
    { [ ! -s "$work/probe.log" ] && ! grep -qv 200 "$work/probe.out"; } || fail "during $1 calls failed: $(sort "$work/probe.log" "$work/probe.out" | uniq --count)"
}

check_crash() {
    local restarts report
    restarts=$(property NRestarts)
    crash_thread
    wait_until 60 "the crash report" is_logged 'Backtrace took'
    log >"$work/crash"
    report=$(grep -m 1 -E '^ .* in push-server at .*\.swift:[0-9]+' "$work/crash") || fail "the crash report names no line: $(tail --lines 20 "$work/crash")"
    # The program goes on after a signal from outside. Another one ends it, as the fault of a real crash would.
    crash_thread
    wait_until 30 "the restart after a crash" has_restarted "$((restarts + 1))"
    wait_until 30 "the server" is_ready 8080
    checked "crash report: ${report#* 0x* }"
    inside kill -STOP "$(property MainPID)"
    wait_until 30 "the restart of a server that hangs" has_restarted "$((restarts + 2))"
    wait_until 30 "the server" is_ready 8080
    checked "started again after the crash, and after it hung"
}
has_restarted() { [ "$(property NRestarts)" = "$1" ] && [ "$(property ActiveState)" = active ]; }

# Crashes a thread of an event loop, which waits in epoll_wait (system call 232): the last of these threads.
crash_thread() {
    local process thread
    process=$(property MainPID)
    thread=$(inside sh -c "for task in /proc/$process/task/*; do read -r call _ <\$task/syscall; [ \"\$call\" != 232 ] || echo \${task##*/}; done" | tail --lines 1)
    nsenter --target "$leader" --pid python3 -c "import ctypes; ctypes.CDLL(None).tgkill($process, $thread, 4)"
}

check_invalid_settings() {
    inside sed --in-place 's/^  operator_port: 8081/  operator_port: none/' /etc/push-server/push-server.yaml
    ! inside systemctl restart push-server 2>/dev/null || fail "the server starts with invalid settings"
    { [ "$(property ExecMainStatus)" = 78 ] && [ "$(property NRestarts)" = 0 ] && is_logged http.operator_port; } ||
        fail "invalid settings: exit code $(property ExecMainStatus), $(property NRestarts) restarts"
    inside sed --in-place 's/^  operator_port: none/  operator_port: 8081/' /etc/push-server/push-server.yaml
    inside systemctl restart push-server
    checked "invalid settings: exit code 78, named in the log, no restart"
}

check_second_app() {
    page "Several Kakao apps" 1 1
    wait_until 30 "the second app" is_ready 8090
    inside test -d /var/lib/push-server/shop/journal || fail "the second app has no journal"
    is_ready 8080 || fail "the second app ends the first one"
    checked "a second app with its own settings, secrets, port and journal"
}

check_upgrade() {
    local before other
    before=$(property MainPID)
    other=$(property MainPID push-server@shop)
    cp "$root/etc/push-server/push-server.yaml" "$work/settings"
    rm "$root"/root/*.deb
    cp "$work/new.deb" "$root/root/push-server_new.deb"
    probe
    page Upgrade 1 1
    end_probe "the upgrade"
    { [ "$(property MainPID)" != "$before" ] && [ "$(property MainPID push-server@shop)" != "$other" ]; } || fail "the upgrade restarts no server"
    cmp "$work/settings" "$root/etc/push-server/push-server.yaml" || fail "the upgrade changes the settings"
    ! grep -q 'systemctl enable' "$work/page" || fail "the upgrade prints what is for a first installation"
    wait_until 30 "the second app" is_ready 8090
    checked "upgrade: settings kept, both servers restarted, none of $probes connections refused"
}

check_removal() {
    page "The real Kakao" 1 1
    inside systemctl start push-server
    wait_until 30 "the server with an empty database" is_ready 8080
    page Remove 1 1
    grep -q 'kept: the database' "$work/page" || fail "purge does not say what is kept"
    { [ -z "$(inside pgrep push-server)" ] && ! is_alive 8080; } || fail "a server runs after its package was removed"
    { [ -d "$root/var/lib/push-server/journal" ] && [ -f "$root/etc/push-server/push-server.credentials/operator.key" ]; } ||
        fail "purge deletes the journal or the secrets"
    [ "$(inside runuser --user postgres -- psql --quiet --tuples-only --no-align --command 'SELECT count(*) FROM devices' shop)" = 0 ] ||
        fail "purge deletes the database"
    [ -z "$(find "$root/etc/systemd/system" -xtype l -name 'push-server*')" ] || fail "purge leaves links"
    checked "purged: servers stopped; database, journal and secrets kept, which it says"
    page Remove 2 2
}

# MARK: Main

make_packages
make_base
say "Installing"
check_install
boot
check_files
check_first_push
check_restart
check_crash
check_invalid_settings
check_second_app
check_upgrade
check_removal
echo
echo "The commands of docs/installing.md work; $SECONDS s."
