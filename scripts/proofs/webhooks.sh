#!/usr/bin/env bash
# Kills servers while they deliver webhooks, and checks that none is lost, forged or out of order.
#
# usage: scripts/webhooks [--callbacks N] [--pushes N] [--kills N] [--interval SECONDS] [--seed N]
#
# Three servers share one PostgreSQL, one folder of journals and one sandbox, which is Kakao and the endpoint of webhooks. CALLBACKS
# (10,000) Link callbacks and PUSHES (10,000) pushes to one user each arrive at all servers. Meanwhile, one of the servers is killed
# (SIGKILL) and started again every SECONDS (20), KILLS (10) times, and PostgreSQL is stopped twice, each time until a twentieth of the
# callbacks has arrived: those are in the journal, and are stored later. Checks at the end:
#
#   - Every callback that was answered 200, and every push, is stored and is at the endpoint.
#   - The webhooks of each type have arrived, each for the first time, in the order of the transactions in the tables.
#   - A tenth of the callbacks was in the journal.
#   - The independent library `standardwebhooks` (PyPI) has verified the signatures of every webhook, under both secrets.
#
# Prints the counts, and exits with 1 if a check fails. The same seed makes the same choices.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

callbacks=10000
pushes=10000
kills=10
interval=20
seed=$((EPOCHSECONDS % 32768))
while [ $# -gt 0 ]; do
    case $1 in
        --callbacks) callbacks=${2:?a number} ;;
        --pushes) pushes=${2:?a number} ;;
        --kills) kills=${2:?a number} ;;
        --interval) interval=${2:?a number} ;;
        --seed) seed=${2:?a number} ;;
        -h | --help)
            print_help
            exit
            ;;
        *) fail "unknown argument $1; see --help" ;;
    esac
    shift 2
done

install_requirements python3 python3-venv
swift build --product push-server >/dev/null
swift build --product kakao-sandbox >/dev/null
programs=$(swift build --show-bin-path)
bin=$(pg_config --bindir)
work=$(mktemp -d)
data=$(mktemp -d)
declare -A processes=()

# PostgreSQL refuses to run as root.
as_postgres() {
    if [ "$(id -u)" = 0 ]; then runuser --user postgres -- "$@"; else "$@"; fi
}
end() {
    # Hides the shell's messages about killed processes.
    exec 2>/dev/null
    kill -9 "${processes[@]}" 2>/dev/null || true
    (cd / && as_postgres "$bin/pg_ctl" --pgdata "$data/cluster" stop --mode immediate --silent) || true
    wait
    rm -rf "$work" "$data"
}
trap end EXIT
trap 'exit 130' INT TERM

[ "$(id -u)" != 0 ] || chown postgres "$data"
(cd / && as_postgres "$bin/initdb" --pgdata "$data/cluster" --auth trust --username postgres >/dev/null)
cat >>"$data/cluster/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$data'
max_connections = 200
CONF
(cd / && as_postgres "$bin/pg_ctl" --pgdata "$data/cluster" --log "$data/log" --silent --wait start >/dev/null)

say "Installing standardwebhooks from PyPI"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check standardwebhooks

export KAKAO_ADMIN_KEY=sandbox-admin-key
"$programs/kakao-sandbox" --port 0 --seed "$seed" --log-level error >"$work/sandbox" 2>&1 &
processes[sandbox]=$!
wait_until 20 "the sandbox to start" grep -q ready "$work/sandbox"
sandbox=$(grep -o 'http://[^ ]*' "$work/sandbox")

export DATABASE_URL="postgres://postgres@/postgres?host=$data" OPERATOR_KEY=operator-key-of-the-webhooks-0123456789
export KAKAO_API_URL=$sandbox HTTP_PORT=0 LOG_LEVEL=notice JOURNAL_DIRECTORY=$work/journal
WEBHOOKS_URL=$sandbox/webhooks
WEBHOOKS_SECRET=whsec_$(openssl rand -base64 32)
WEBHOOKS_SECRET_NEXT=whsec_$(openssl rand -base64 32)
export WEBHOOKS_URL WEBHOOKS_SECRET WEBHOOKS_SECRET_NEXT
"$programs/push-server" migrate >/dev/null 2>&1 || fail "push-server migrate failed"

cat >"$work/drive.py" <<'PYTHON'
"""Starts and kills the servers, calls them, collects and verifies the webhooks, and compares them with the tables."""
import atexit, http.client, json, os, random, re, signal, subprocess, sys, threading, time, urllib.request
from standardwebhooks.webhooks import Webhook

program, data, work, sandbox = sys.argv[1:5]
callbacks, pushes, kills, interval, seed = map(int, sys.argv[5:10])
pg_ctl = sys.argv[10:]
random.seed(seed)
begin = time.monotonic()
SERVERS = 3
SENDERS = 8


def log(text):
    print(f"after {time.monotonic() - begin:.0f} s: {text}", flush=True)


def sql(query):
    done = subprocess.run(["psql", "-qAt", "-h", data, "-U", "postgres", "-c", query, "postgres"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.split()


def postgres(*arguments):
    subprocess.run([*pg_ctl, *arguments], cwd="/", check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Server:
    def __init__(self, number):
        self.number, self.starts = number, 0
        self.start()

    def start(self):
        self.starts += 1
        self.log = f"{work}/server-{self.number}-{self.starts}"
        with open(self.log, "w") as output:
            self.process = subprocess.Popen([program, "serve"], stdout=output, stderr=output)

    @property
    def port(self):
        found = re.search(r"127\.0\.0\.1:(\d+)", open(self.log).read())
        return int(found[1]) if found else None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def check(self):
        """Ends the run if the server has ended by itself."""
        if (self.process.poll() or 0) > 0:
            print(f"failed: server {self.number} exited: {open(self.log).read()[-300:]}", flush=True)
            for server in servers:
                server.kill()
            # Ends all threads.
            os._exit(1)

    def delivers(self):
        """Whether the server has begun to deliver since its start. Only its death ends that."""
        return "Delivering webhooks" in open(self.log).read()


servers = [Server(number) for number in range(1, SERVERS + 1)]
atexit.register(lambda: [server.kill() for server in servers])
is_database_up = threading.Event()
is_database_up.set()
during_outage = 0
answered = {"callback": 0, "push": 0}
lock = threading.Lock()


def call(method, path, body, headers):
    """Calls any server until one responds with 200: a repetition has no further effect, or is a push of its own."""
    while True:
        server = random.choice(servers)
        server.check()
        connection = None
        try:
            port = server.port
            if port:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
                connection.request(method, path, body, headers)
                response = connection.getresponse()
                response.read()
                if response.status == 200:
                    return
        except OSError:
            pass
        except http.client.HTTPException:
            pass
        finally:
            if connection:
                connection.close()
        time.sleep(0.1)


def send(kind, numbers, every):
    global during_outage
    start = time.monotonic()
    for index, number in enumerate(numbers):
        time.sleep(max(0, start + index * every - time.monotonic()))
        if kind == "callback":
            call(
                "GET",
                f"/kakao/link/callback?CHAT_TYPE=MemoChat&HASH_CHAT_ID=147bp3dASTS0&TEMPLATE_ID=3135&product_id={number}",
                None,
                {"Authorization": f"KakaoAK {os.environ['KAKAO_ADMIN_KEY']}", "X-Kakao-Resource-ID": f"call-{number}"},
            )
        else:
            body = f"uuids=%5B{number + 1}%5D&push_message=%7B%22for_gcm%22%3A%7B%7D%7D"
            call(
                "POST",
                "/v1/push/send",
                body,
                {"Authorization": f"KakaoAK {os.environ['OPERATOR_KEY']}", "Content-Type": "application/x-www-form-urlencoded"},
            )
        with lock:
            answered[kind] += 1
            if kind == "callback" and not is_database_up.is_set():
                during_outage += 1


arrivals, first, verified = 0, [], 0
problems = []
ended = threading.Event()


def collect():
    """Reads the webhooks that the sandbox has received, and verifies them while their timestamps are recent."""
    global arrivals, verified
    libraries = [Webhook(os.environ[name]) for name in ("WEBHOOKS_SECRET", "WEBHOOKS_SECRET_NEXT")]
    known, after = set(), 0
    while True:
        is_last = ended.is_set()
        while True:
            with urllib.request.urlopen(f"{sandbox}/sandbox/webhooks?after={after}&limit=1000", timeout=60) as response:
                page = json.load(response)["items"]
            for webhook in page:
                arrivals += 1
                try:
                    for library in libraries:
                        library.verify(webhook["body"], webhook["headers"])
                    verified += 1
                except Exception as error:
                    problems.append(f"{webhook['id']}: {type(error).__name__} {error}")
                if webhook["id"] not in known:
                    known.add(webhook["id"])
                    first.append(webhook)
            if not page:
                break
            after = page[-1]["sequence"]
        if is_last:
            return
        time.sleep(0.5)


def wait_until(limit, what, condition):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            problems.append(f"timed out waiting for {what}")
            return
        time.sleep(0.5)


wait_until(60, "the servers", lambda: all("Ready" in open(server.log).read() for server in servers))
collector = threading.Thread(target=collect)
collector.start()
duration = 0.9 * kills * interval
senders = []
for kind, count in (("callback", callbacks), ("push", pushes)):
    for number in range(SENDERS):
        arguments = (kind, range(number, count, SENDERS), duration * SENDERS / count)
        senders.append(threading.Thread(target=send, args=arguments))
for sender in senders:
    sender.start()

outages = {kills // 4, kills // 2}
killed_deliverers = 0
for number in range(kills):
    time.sleep(interval)
    if number in outages:
        postgres("stop", "--mode", "immediate")
        is_database_up.clear()
        start = during_outage
        # A few more, since the last of them are stored within a second.
        while during_outage < start + callbacks * 0.06 and any(sender.is_alive() for sender in senders):
            time.sleep(0.1)
        is_database_up.set()
        postgres("start", "--wait")
        log(f"PostgreSQL was stopped while {during_outage - start} callbacks arrived")
    # Every second one is the server that delivers, if there is one.
    candidates = [server for server in servers if server.delivers()]
    server = candidates[0] if candidates and number % 2 == 0 else random.choice(servers)
    delivers = server.delivers()
    killed_deliverers += delivers
    server.kill()
    server.start()
    log(f"server {server.number} is killed{', which delivers' if delivers else ''}; {arrivals} webhooks have arrived")
for sender in senders:
    sender.join()
log("all callbacks and pushes are answered")
wait_until(120, "the journal", lambda: int(sql("SELECT count(*) FROM link_callbacks")[0]) >= callbacks)
wait_until(300, "the pushes", lambda: sql("SELECT count(*) FROM pushes WHERE state <> 'done'") == ["0"])
total = int(sql("SELECT (SELECT count(*) FROM link_callbacks) + (SELECT count(*) FROM pushes)")[0])
wait_until(300, "the webhooks", lambda: len(first) >= total)
time.sleep(2)
ended.set()
collector.join()

tables = {
    "link.callback.received": sql("SELECT id::text FROM link_callbacks AS callback ORDER BY callback.event_xid, callback.id"),
    "push.done": sql("SELECT id::text FROM pushes AS push ORDER BY push.event_xid, push.id"),
}
set_aside = int(sql("SELECT count(*) FROM webhook_deliveries")[0])
journaled = int(sql("SELECT count(*) FROM link_callbacks WHERE stored_at > received_at + interval '1 s'")[0])
named = int(sql("SELECT count(*) FROM link_callbacks WHERE key LIKE 'call-%'")[0])
print(f"""
  callbacks                   {answered['callback']} answered 200, {named} stored, {journaled} of them through the journal
  pushes                      {answered['push']} answered 200, {len(tables['push.done'])} stored
  webhooks                    {arrivals} arrived, {len(first)} different, {arrivals - len(first)} repetitions
  verified                    {verified}
  set aside                   {set_aside}
  servers killed              {kills}, {killed_deliverers} of them while they delivered""")
for kind, ids in tables.items():
    arrived = [json.loads(webhook["body"])["data"]["id"] for webhook in first if webhook["type"] == kind]
    missing = len(set(ids) - set(arrived))
    displaced = sum(left != right for left, right in zip(ids, arrived))
    print(f"  {kind:<27} {len(arrived)} arrived, {missing} missing, {displaced} not at their place in the order")
    if missing or displaced or len(arrived) != len(ids):
        problems.append(f"{kind}: {missing} missing, {displaced} out of order, {len(arrived)} instead of {len(ids)}")
if named != callbacks or answered["callback"] != callbacks:
    problems.append(f"{named} callbacks are stored")
if journaled < callbacks / 10:
    problems.append(f"only {journaled} callbacks were in the journal")
if verified != arrivals:
    problems.append(f"only {verified} of {arrivals} webhooks were verified")
for server in servers:
    server.process.send_signal(signal.SIGTERM)
for server in servers:
    server.process.wait()
for text in problems[:20]:
    print("failed: " + text)
sys.exit(1 if problems else 0)
PYTHON

say "Seed $seed: $callbacks callbacks and $pushes pushes; servers are killed $kills times"
if [ "$(id -u)" = 0 ]; then postgres_user=(runuser --user postgres --); else postgres_user=(); fi
"$work/venv/bin/python" "$work/drive.py" "$programs/push-server" "$data" "$work" "$sandbox" "$callbacks" "$pushes" "$kills" "$interval" "$seed" \
    "${postgres_user[@]}" "$bin/pg_ctl" --pgdata "$data/cluster" --log "$data/log" --silent || fail "seed $seed: see above"
