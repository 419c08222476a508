#!/usr/bin/env bash
# Lets Kakao refuse the Admin key while a push is being sent and Kakao calls, and checks what operators see.
#
# usage: scripts/refusal [--seconds N] [--callbacks N] [--users N]
#
# Starts push-server dev and a push to USERS (100,000) users, at 1,000 users a second. After 10 s the
# sandbox answers every call with 401 and -401 for SECONDS (60). Meanwhile CALLBACKS (10,000) Link callbacks arrive. Then the
# sandbox accepts the key again, and the push is resumed. Checks:
#
#   - Every /readyz, twice a second, is 200.
#   - GET /v1/status says `halted`, with Kakao's error and a remedy, and `running` again at the end.
#   - Every callback is answered 200 within 3 s, as Kakao requires, and is stored once.
#   - Prometheus fires the alert SenderHalted, and no other one, until the key is accepted: the metrics, scraped every 5 s,
#     become a test of deploy/prometheus/alerts.yml for promtool.
#   - Every user of the push is reached exactly once.
#
# Prints the counts and latencies, and exits with 1 if a check fails. Needs promtool, as scripts/alerts does.
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

seconds=60
callbacks=10000
users=100000
while [ $# -gt 0 ]; do
    case $1 in
        --seconds) seconds=${2:?a number} ;;
        --callbacks) callbacks=${2:?a number} ;;
        --users) users=${2:?a number} ;;
        -h | --help)
            print_help
            exit
            ;;
        *) fail "unknown argument $1; see --help" ;;
    esac
    shift 2
done

install_requirements python3
find_promtool
swift build --product push-server >/dev/null
swift build --product kakao-sandbox >/dev/null
program=$(swift build --show-bin-path)/push-server
work=$(mktemp -d)
# PostgreSQL runs as another user if this script runs as root.
chmod 755 "$work"

LOG_LEVEL=notice "$program" dev --directory "$work/local" --port 0 >"$work/log" 2>&1 &
server=$!
end() {
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM
is_up_or_dead() { [ -f "$work/local/dev.env" ] || ! kill -0 "$server" 2>/dev/null; }
wait_until 120 "push-server dev to start" is_up_or_dead
[ -f "$work/local/dev.env" ] || fail "push-server dev exited; the end of its log: $(tail -5 "$work/log")"

cat >"$work/refusal.py" <<'PYTHON'
"""Drives the server, watches it, and writes the scrapes as a test for promtool."""
import concurrent.futures, http.client, json, re, ssl, sys, threading, time, urllib.parse, urllib.request

values = dict(line.strip().removeprefix("export ").split("=", 1) for line in open(sys.argv[1]) if "=" in line)
values = {name: value.strip("'\"") for name, value in values.items()}
seconds, callbacks, users, rules, output = int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5], sys.argv[6]
server, sandbox = values["SERVER_URL"], values["SANDBOX_URL"]
trust = ssl.create_default_context(cafile=values["SANDBOX_CERTIFICATE"])
SCRAPE = 5
failures = []


def check(condition, text):
    if not condition:
        failures.append(text)


def call(url, body=None, method=None, key=None, kind="application/json"):
    request = urllib.request.Request(url, data=body.encode() if body is not None else None, method=method)
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    if body is not None:
        request.add_header("Content-Type", kind)
    with urllib.request.urlopen(request, timeout=60, context=trust if url.startswith("https") else None) as response:
        return response.read().decode()


def operator(path, body=None, method=None, kind="application/json"):
    return call(server + path, body, method, values["OPERATOR_KEY"], kind)


ended = threading.Event()
readiness, scrapes = [], []


def watch():
    """Asks for readiness twice a second, and scrapes the metrics every SCRAPE seconds."""
    begin = time.monotonic()
    for tick in range(100_000):
        try:
            with urllib.request.urlopen(server + "/readyz", timeout=10) as response:
                readiness.append(response.status)
        except urllib.error.HTTPError as error:
            readiness.append(error.code)
        if tick % (2 * SCRAPE) == 0:
            scrapes.append(operator("/metrics"))
        if ended.wait(max(0, begin + (tick + 1) / 2 - time.monotonic())):
            return


latencies, statuses = [], []


def send_callbacks(numbers, every):
    """Makes calls over one connection, one every `every` seconds."""
    host = urllib.parse.urlparse(values["PUBLIC_URL"]).netloc
    connection = http.client.HTTPConnection(host, timeout=30)
    begin = time.monotonic()
    for index, number in enumerate(numbers):
        time.sleep(max(0, begin + index * every - time.monotonic()))
        start = time.monotonic()
        connection.request(
            "GET",
            f"/kakao/link/callback?CHAT_TYPE=MemoChat&HASH_CHAT_ID=147bp3dASTS0&TEMPLATE_ID=3135&product_id={number}",
            headers={"Authorization": f"KakaoAK {values['KAKAO_ADMIN_KEY']}", "X-Kakao-Resource-ID": f"call-{number}"},
        )
        response = connection.getresponse()
        response.read()
        statuses.append(response.status)
        latencies.append(time.monotonic() - start)


def show(push):
    return json.loads(operator(push))


def status():
    return json.loads(operator("/v1/status"))["sender"]


def wait_until(limit, what, condition):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"timed out waiting for {what}")
        time.sleep(0.2)


def promtool_test():
    """Returns the scrapes as a test of the alerts."""
    sample = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
    series = {}
    for number, text in enumerate(scrapes):
        for line in text.splitlines():
            found = sample.match(line)
            if line.startswith("#") or not found:
                continue
            name, labels, value = found.groups()
            full = name + "{" + ",".join(filter(None, [labels, 'job="push-server"', 'instance="server"'])) + "}"
            series.setdefault(full, ["_"] * len(scrapes))[number] = value
    series['up{job="push-server",instance="server"}'] = ["1"] * len(scrapes)
    lines = ["rule_files: [" + json.dumps(rules) + "]", f"evaluation_interval: {SCRAPE}s", "tests:", f"- interval: {SCRAPE}s"]
    lines.append("  input_series:")
    for name, numbers in series.items():
        lines.append("  - series: " + json.dumps(name))
        lines.append("    values: " + json.dumps(" ".join(numbers)))
    lines.append("  promql_expr_test:")
    for at, alerts in ((halted_at + seconds - 2 * SCRAPE, ["SenderHalted"]), ((len(scrapes) - 1) * SCRAPE, [])):
        lines.append('  - expr: count by (alertname) (ALERTS{alertstate="firing"})')
        lines.append(f"    eval_time: {at // SCRAPE * SCRAPE}s")
        lines.append("    exp_samples:")
        for alert in alerts:
            lines.append("    - labels: " + json.dumps('{alertname="%s"}' % alert))
            lines.append("      value: 1")
        if not alerts:
            lines[-1] += " []"
    return "\n".join(lines) + "\n"


operator("/v1/audiences/all", "".join(f"{number}\n" for number in range(1, users + 1)), "PUT", "text/plain")
watcher = threading.Thread(target=watch, daemon=True)
watcher.start()
begin = time.monotonic()
push = "/v1/pushes/" + json.loads(operator("/v1/pushes", json.dumps({
    "audience": {"audience": "all"}, "skip_unknown": False, "users_per_second": 1000,
    "message": {"for_gcm": {"custom_field": {"marker": "refusal"}}},
})))["id"]
time.sleep(10)
check(show(push)["users"]["sent"] > 0, "the push did not begin")
call(sandbox + "/sandbox/faults", '{"kind":"status","status":401,"code":-401,"msg":"the key was revoked"}')
print("Kakao refuses the key")
wait_until(10, "the sender to halt", lambda: status()["state"] == "halted")
halted_at = int(time.monotonic() - begin)
halted = status()
check("the key was revoked" in (halted["reason"] or "") and halted["remedy"], f"the status does not say why: {halted}")
sent = show(push)["users"]["sent"]
connections = 16
with concurrent.futures.ThreadPoolExecutor(connections) as pool:
    parts = [range(first, callbacks, connections) for first in range(connections)]
    for future in [pool.submit(send_callbacks, part, (seconds - 1) * connections / callbacks) for part in parts]:
        future.result()
time.sleep(max(0, begin + halted_at + seconds - time.monotonic()))
check(status()["state"] == "halted", "the sender did not stay halted")
check(show(push)["state"] == "halted", "the push is not halted")
check(show(push)["users"]["sent"] == sent, "users were sent to although Kakao refused the key")
call(sandbox + "/sandbox/faults", method="DELETE")
print("Kakao accepts the key, and the push is resumed")
resumed = time.monotonic()
operator(push + "/resume", "", "POST")
wait_until(30, "the push to continue", lambda: show(push)["users"]["sent"] > sent)
continued = time.monotonic() - resumed
check(status()["state"] == "running", "the sender does not run again")
wait_until(users / 1000 + 120, "the push to end", lambda: show(push)["state"] == "done")
time.sleep(2 * SCRAPE)
ended.set()
watcher.join()

stored = [json.loads(line)["resource_id"] for line in operator("/v1/link/callbacks?format=ndjson").splitlines()]
reached = json.loads(call(sandbox + "/sandbox/reached"))["items"][0]
latencies.sort()
print(f"""
  readiness                   {len(readiness)} times, {sum(status != 200 for status in readiness)} not 200
  status                      halted: {halted['reason']}
  callbacks                   {callbacks}, {statuses.count(200)} answered 200, {len(set(stored))} stored
  latency                     median {latencies[len(latencies) // 2] * 1000:.1f} ms, slowest {latencies[-1] * 1000:.1f} ms
  sent before, after          {sent} of {users} users; the push continued {continued:.1f} s after it was resumed
  users reached               {reached['users']}, {reached['more_than_once']} of them more than once""")
check(set(readiness) == {200}, f"/readyz was {set(readiness)}")
check(statuses.count(200) == callbacks, "a callback was not answered 200")
check(latencies[-1] < 3, "a callback was answered later than the 3 s that Kakao waits")
check(len(stored) == len(set(stored)) == callbacks, "callbacks are lost, or stored twice")
check(reached["users"] == users and reached["more_than_once"] == 0, f"users were missed or reached twice: {reached}")
with open(output, "w") as file:
    file.write(promtool_test())
for text in failures:
    print("failed: " + text)
sys.exit(1 if failures else 0)
PYTHON

say "A push to $users users; Kakao refuses the key for $seconds s, while $callbacks callbacks arrive"
python3 "$work/refusal.py" "$work/local/dev.env" "$seconds" "$callbacks" "$users" "$PWD/deploy/prometheus/alerts.yml" "$work/alerts_test.yml" \
    || fail "see above"
say "Testing the alert rules with the metrics of this run"
"$promtool" test rules "$work/alerts_test.yml"
