"""Drives the server, watches it, and writes the scrapes as a test for promtool."""
import concurrent.futures, http.client, json, os, re, sys, threading, time, urllib.error, urllib.parse, urllib.request
from proof import call, check, check_reached, finish, operator, sandbox, send_to_audience, server, show, upload_audience, wait_until

seconds, callbacks, users = map(int, sys.argv[1:4])
rules, output = sys.argv[4:6]
SCRAPE = 5

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
    host = urllib.parse.urlparse(os.environ["PUBLIC_URL"]).netloc
    connection = http.client.HTTPConnection(host, timeout=30)
    begin = time.monotonic()
    for index, number in enumerate(numbers):
        time.sleep(max(0, begin + index * every - time.monotonic()))
        start = time.monotonic()
        connection.request(
            "GET",
            f"/kakao/link/callback?CHAT_TYPE=MemoChat&HASH_CHAT_ID=147bp3dASTS0&TEMPLATE_ID=3135&product_id={number}",
            headers={"Authorization": f"KakaoAK {os.environ['KAKAO_ADMIN_KEY']}", "X-Kakao-Resource-ID": f"call-{number}"},
        )
        response = connection.getresponse()
        response.read()
        statuses.append(response.status)
        latencies.append(time.monotonic() - start)


def status():
    return json.loads(operator("/v1/status"))["sender"]


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


upload_audience(users)
watcher = threading.Thread(target=watch, daemon=True)
watcher.start()
begin = time.monotonic()
push = send_to_audience(users_per_second=1000, message={"for_gcm": {"custom_field": {"marker": "refusal"}}})
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

stored = [json.loads(line)["resource_id"] for line in operator("/v1/link/callbacks/export?reason=proof").splitlines()]
latencies.sort()
print(f"""
  readiness                   {len(readiness)} times, {sum(status != 200 for status in readiness)} not 200
  status                      halted: {halted['reason']}
  callbacks                   {callbacks}, {statuses.count(200)} answered 200, {len(set(stored))} stored
  latency                     median {latencies[len(latencies) // 2] * 1000:.1f} ms, slowest {latencies[-1] * 1000:.1f} ms
  sent before, after          {sent} of {users} users; the push continued {continued:.1f} s after it was resumed
  users reached               {check_reached(users)}""")
check(set(readiness) == {200}, f"/readyz was {set(readiness)}")
check(statuses.count(200) == callbacks, "a callback was not answered 200")
check(latencies[-1] < 3, "a callback was answered later than the 3 s that Kakao waits")
check(len(stored) == len(set(stored)) == callbacks, "callbacks are lost, or stored twice")
with open(output, "w") as file:
    file.write(promtool_test())
finish()
