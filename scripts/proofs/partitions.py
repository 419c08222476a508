"""Compares a partitioned link_callbacks with what the server answers about it: partitions.py FILE ROWS.

FILE has the names that were answered 200, and ROWS callbacks were stored before them.
"""
import json, os, subprocess, sys, urllib.parse
from proof import call, check, finish, operator, sandbox, wait_until

names, rows = {line.strip() for line in open(sys.argv[1])}, int(sys.argv[2])


def sql(query):
    # Its plans are not those of the server.
    environment = {**os.environ, "PGOPTIONS": "-c auto_explain.log_min_duration=-1"}
    command = ["psql", "-qAt", "-c", query, os.environ["DATABASE_URL"]]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split()


def pages(path, **fields):
    """Returns the items of all pages of a list."""
    items, cursor = [], {}
    while True:
        page = json.loads(operator(f"{path}?{urllib.parse.urlencode({'limit': 1000, **fields, **cursor})}"))
        items += page["items"]
        if not page["next"]:
            return items
        cursor = {"cursor": page["next"]}


def compare(what, found, expected):
    print(f"  {what:<27} {found}")
    check(found == expected, f"{what}: {found} instead of {expected}")


stored = sql("SELECT key FROM link_callbacks")
compare("names answered 200", len(names), len([key for key in stored if key in names]))
compare("rows", len(stored), len(set(stored)))
listed = pages("/v1/link/callbacks")
compare("listed", len({item["id"] for item in listed}), len(stored))
check([item["id"] for item in listed] == sorted((item["id"] for item in listed), reverse=True), "the list is not in the order of the ids")
compare("exported", len(operator("/v1/link/callbacks/export?format=ndjson&reason=Proof").splitlines()), len(stored))
compare("exported as CSV", len(operator("/v1/link/callbacks/export?format=csv&reason=Proof").splitlines()), len(stored) + 1)

first = next(item for item in listed if item["resource_id"] == "row-1")
middle = listed[len(listed) // 2]["received_at"]
for what, fields, expected in (
    ("of a kind of room", {"chat_type": "DirectChat"}, lambda item: item["chat_type"] == "DirectChat"),
    ("of a template", {"template_id": 3135}, lambda item: item["template_id"] == 3135),
    ("with an argument", {"arg.product_id": "row-1"}, lambda item: item["args"].get("product_id") == "row-1"),
    ("since a time", {"since": middle}, lambda item: item["received_at"] >= middle),
    ("until a time", {"until": middle}, lambda item: item["received_at"] < middle),
    ("stored since a time", {"stored_since": first["stored_at"]}, lambda item: item["stored_at"] >= first["stored_at"]),
    ("of a share", {"share": "A" * 22}, lambda item: False),
):
    compare(what, len(pages("/v1/link/callbacks", **fields)), len([item for item in listed if expected(item)]))

wait_until(60, "the statistics", lambda: sql("SELECT count(*) FROM share_events") == ["0"])
statistics = json.loads(operator("/v1/link/stats?by=day"))["items"]
compare("counted", sum(item["arrivals"] for item in statistics), len(names))

new = {item["id"] for item in listed if item["resource_id"] in names}
delivered, last = set(), 0


def all_delivered():
    global last
    while True:
        items = json.loads(call(f"{sandbox}/sandbox/webhooks?after={last}&limit=1000"))["items"]
        if not items:
            return delivered == new
        last = items[-1]["sequence"]
        delivered.update(json.loads(item["body"])["data"]["id"] for item in items)


wait_until(180, "the webhooks", all_delivered)
compare("webhooks", len(delivered), len(new))

# The third call is the only one of its name.
naming = "SELECT count(*) FROM link_callbacks WHERE args ->> 'product_id' = '3'"
check(sql(naming) == ["1"], "no callback names the user")
operator("/v1/users/3", method="DELETE")
compare("of an erased user", int(sql(naming)[0]), 0)
finish()
