# shellcheck shell=bash
# Functions shared by the scripts of this folder. Sourced, not executed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
fail() {
    printf '\n%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# print_help [FILE]: prints the help of the calling script, or of a file: the comment at its top.
print_help() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "${1:-$0}" | sed '/^set -\|^\. \|^shellcheck /d'; }

# read_numbers NAME=DEFAULT ... -- [--NAME NUMBER ...]: sets each variable to the number of its option, or to the default.
read_numbers() {
    local names=" "
    while [ "$1" != -- ]; do
        printf -v "${1%%=*}" %s "${1#*=}"
        names+="${1%%=*} "
        shift
    done
    shift
    while [ $# -gt 0 ]; do
        [[ $1 == --* && $names == *" ${1#--} "* ]] || fail "unknown argument $1; see --help"
        [[ ${2:-} =~ ^[0-9]+$ ]] || fail "$1 needs a number; see --help"
        printf -v "${1#--}" %s "$2"
        shift 2
    done
}

# Runs a command as root: directly, or with sudo.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Installs the given Debian packages that are missing.
install_missing() {
    local missing=()
    for package in "$@"; do
        [ "$(dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
    done
    [ "${#missing[@]}" = 0 ] && return
    say "Installing ${missing[*]}"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Checks for Swift and installs the packages for building and running, and those given.
install_requirements() {
    command -v swift >/dev/null || fail "Swift 6.3 is missing: install it, see https://www.swift.org/install/linux/"
    install_missing libpq-dev libssl-dev libyaml-dev pkg-config \
        postgresql curl ca-certificates "$@"
}

# wait_until SECONDS WHAT COMMAND [ARGUMENT ...]: waits until the command succeeds; fails after the given seconds,
# naming WHAT.
wait_until() {
    local deadline=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || fail "timed out waiting for $what"
        sleep 0.1
    done
}

# Prints $REVISION or, without it, the commit of the current folder, followed by -changed if the sources of the programs have changed.
find_revision() {
    local revision=${REVISION:-}
    if [ -z "$revision" ]; then
        revision=$(git rev-parse HEAD 2>/dev/null) || revision=unknown
        [ -z "$(git status --porcelain -- Package.swift Sources VERSION migrations 2>/dev/null)" ] || revision+=-changed
    fi
    printf %s "$revision"
}

# build_release PRODUCT ...: builds programs of the package in the current folder as they are released, and prints their folder.
# REVISION=… names the commit of the source, where there is no Git repository.
build_release() {
    local revision object options product
    revision=$(find_revision)
    # In an object file of its own, another commit only costs another link.
    object=.build-static/revision-$revision.o
    mkdir -p .build-static
    find .build-static -maxdepth 1 -name 'revision-*.o' ! -path "$object" -delete
    echo "const char push_server_revision[] = \"$revision\";" | clang -x c -c - -o "$object"

    # The program needs no Swift on the machine that it runs on.
    options=(--configuration release --static-swift-stdlib --scratch-path .build-static -Xlinker "$PWD/$object")
    # A static Swift program has 50,000 relocations at startup. Their packed list takes a few KiB of memory instead of 1 MiB. Only
    # lld writes packed relocations; glibc reads them since 2.36 (Debian 12).
    options+=(-Xswiftc -use-ld=lld -Xlinker -z -Xlinker pack-relative-relocs)
    # Functions have sections of their own, so that the linker leaves out each one that is not used.
    options+=(-Xswiftc -Xfrontend -Xswiftc -function-sections)
    # The same program in whatever folder it is built: the symbols name neither the folder nor the compiler's cache of C modules, whose
    # name has a hash of the folder; no object has a hash of what it is compiled from, paths included.
    options+=(-Xswiftc -file-prefix-map -Xswiftc "$PWD=." -Xcc "-ffile-prefix-map=$PWD=." -Xlinker --build-id=sha1)
    options+=(-Xswiftc -Xfrontend -Xswiftc -no-clang-module-breadcrumbs)
    options+=(-Xswiftc -Xfrontend -Xswiftc -disable-incremental-llvm-codegen)
    # The symbols also name the sources that macros generate, which are temporary files. Beside the other sources, their paths are
    # written in the same way in each folder.
    mkdir -p .build-static/temporary
    for product in "$@"; do
        TMPDIR=$PWD/.build-static/temporary swift build "${options[@]}" --product "$product" >&2
    done
    swift build "${options[@]}" --show-bin-path
}

# A pattern of the tests that need no PostgreSQL, which run first. They contain all exit tests: these make the testing library wait
# for child processes in a loop without pauses, which would cost the other tests a tenth of the processors' time.
# shellcheck disable=SC2034
tests_without_postgres='^(EventLoop|HTTPClient|HTTPServer|JSON|Journal|KakaoAPI|KakaoSandbox|Net|Schemas|Templates)Tests\.'

# Sets promtool to the path of Prometheus's tool. If it is missing, it is taken from Debian's package prometheus into
# .local/promtool: the package is not installed, because it would start a Prometheus.
find_promtool() {
    promtool=$(command -v promtool || echo .local/promtool)
    [ -x "$promtool" ] || extract_promtool
}

extract_promtool() {
    say "Downloading promtool"
    local work
    work=$(mktemp -d)
    (
        cd "$work"
        apt-get download -qq prometheus 2>/dev/null || { as_root apt-get update -qq && apt-get download -qq prometheus; }
        dpkg-deb --fsys-tarfile prometheus_*.deb | tar --extract --file - ./usr/bin/promtool
    )
    mkdir -p .local
    mv "$work/usr/bin/promtool" .local/promtool
    rm -rf "$work"
}
