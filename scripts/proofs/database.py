"""Watches servers whose PostgreSQL fails and recovers.

database.py await STATE [EVENT]: waits until /readyz, with 200, and /v1/status of each server show this state of the database, and
that sessions wait for EVENT.
database.py times FILE FAULT CURE READY CHANGES SLACK: prints what clients were answered, and the times of the recovery. Checks that
Kakao's calls were answered 200, that servers were ready READY s after CURE, and changes of devices accepted CHANGES s after it. SLACK
multiplies these times and the 3 s that Kakao waits; if it is 0, they are not checked. FAULT and CURE are seconds since 1970.
"""
import json, sys, time
from collections import Counter
from failover import OPERATOR, servers
from proof import call, check, finish, wait_until

KAKAO_LIMIT = 3


def await_state(state, event):
    def is_shown(server):
        try:
            ready = json.loads(call(server + "/readyz"))["checks"]["database"]
            database = json.loads(call(server + "/v1/status", headers=OPERATOR))["database"]
        except OSError:
            return False
        events = [wait["event"] for wait in database["waits"]]
        return ready == database["state"] == state and (event is None or event in events)

    begin = time.monotonic()
    wait_until(120, f"the servers to show {state}", lambda: all(map(is_shown, servers)))
    print(f"after {time.monotonic() - begin:.1f} s each server shows {state}" + (f", and waits for {event}" if event else ""))


def times(file, fault, cure, ready_limit, changes_limit, slack):
    with open(file) as stored:
        stored = json.load(stored)
    answers = {kind: [answer for name, *answer in stored["answers"] if name == kind] for kind in ("change", "callback")}
    statuses = {kind: Counter(status for *_, status in answers[kind]) for kind in answers}
    slowest = {kind: max(seconds for _, seconds, _ in answers[kind]) for kind in answers}
    refused = [begin for begin, _, status in answers["change"] if not 200 <= status < 300]
    # The moments at which a server was not ready, or began to refuse a change.
    unready = [moment for moment, state in stored["states"] if moment > fault and state != "ok"]
    unready_for = max([0, *(moment - cure for moment in unready)])
    refused_for = max([0, *(begin - cure for begin in refused)])
    limits = f" (limits {ready_limit * slack:g} s, {changes_limit * slack:g} s)" if slack else ""
    seen = f"after {min(unready) - fault:.1f} s" if unready else "no"
    print("\nanswers by status (0: none within 20 s), and times")
    for kind in answers:
        counts = ", ".join(f"{status}: {count}" for status, count in sorted(statuses[kind].items()))
        print(f"  {kind + 's':<27} {counts}; slowest {slowest[kind]:.2f} s")
    print(f"""  outage shown by /readyz     {seen}
  ready, changes accepted     {unready_for:.1f} s, {refused_for:.1f} s after the fault{limits}""")
    check(cure == fault or refused, "no change of a device was refused during the outage")
    wrong = [status for status in statuses["change"] if not 200 <= status < 300 and status not in (0, 503)]
    check(not wrong, f"changes of devices were answered {wrong}")
    if slack == 0:
        return
    check(statuses["callback"].keys() == {200}, "callbacks were not answered 200")
    check(slowest["callback"] <= KAKAO_LIMIT * slack, f"a callback was answered after {slowest['callback']:.2f} s")
    check(unready_for <= ready_limit * slack, f"a server was not ready {unready_for:.1f} s after the outage")
    check(refused_for <= changes_limit * slack, f"a change of a device was refused {refused_for:.1f} s after the outage")


match sys.argv[1:]:
    case ["await", state, *event]:
        await_state(state, event[0] if event else None)
    case ["times", file, *numbers]:
        times(file, *map(float, numbers))
finish()
