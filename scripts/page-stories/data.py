"""The keys, users, pushes and shares that the stories begin with, made by the API as a service's own programs make them."""
import json, os, subprocess
import sys

sys.path.insert(0, "scripts/proofs")
from proof import call, operator, sandbox, wait_until  # noqa: E402, F401

users = 1200
largest_user = "9223372036854775807"
markup = '<img src=x onerror="window.isHacked=1">'


def post(path, body, key=None):
    headers = {"Authorization": "Bearer " + key} if key else {}
    return json.loads(operator(path, json.dumps(body), headers=headers) or "{}")


def show(push):
    return json.loads(operator(f"/v1/pushes/{push}"))


def status():
    return json.loads(operator("/v1/status"))


def create_key(name, *options):
    """Creates a key that is related to no other."""
    output = subprocess.run(
        ["push-server", "keys", "create", "--name", name, *options], check=True, capture_output=True, text=True
    ).stdout
    return next(word for word in output.split() if word.startswith("kps_"))


def message(title, text, **values):
    return {
        "for_apns": {"message": {"title": title, "body": text}, "custom_field": values},
        "for_fcm": {"custom_field": {"title": title, "body": text, **values}},
    }


def send(name, to, title="Order ready", text="Your iced americano is ready at the counter.", key=None, values={}, **push):
    """Creates a push to users, and returns its id."""
    body = {"name": name, "audience": {"uuids": to}, "message": message(title, text, **values), **push}
    return post("/v1/pushes", body, key)["id"]


def wait_for_state(push, state, limit=30):
    wait_until(limit, f"push {push} to be {state}", lambda: show(push)["state"] == state)
    return push


def refuse_key():
    """Has Kakao refuse the Admin key for pushes."""
    for version in ("v1", "v2"):
        call(f"{sandbox}/sandbox/faults", json.dumps({"path": f"/{version}/push/send", "kind": "status", "status": 401, "code": -401}))


def end_faults():
    call(f"{sandbox}/sandbox/faults", method="DELETE")


def share(campaign, arguments, template=None):
    """Shares a message that arrives in a chat, and returns the share."""
    link = {"web_url": "https://example.com/cakes/1", "mobile_web_url": "https://example.com/cakes/1"}
    template = template or {"object_type": "text", "text": "Strawberry cheesecake, 2,000 won off", "link": link}
    share = post("/v1/link/shares", {"template": template, "args": arguments, "campaign": campaign})
    callback = {"chat_type": "DirectChat", "template_id": 7, "args": share["callback_args"]}
    call(f"{sandbox}/sandbox/link/share", json.dumps(callback))
    return share


class World:
    """What the stories share."""

    def __init__(self, browser):
        self.browser = browser
        roles = {"kim": "marketing", "lee": "approver", "park": "on-call", "han": "support"}
        self.keys = {name: create_key(name, "--role", role) for name, role in roles.items()}
        self.keys["choi"] = create_key("choi", "--scope", "read")
        self.keys["seo"] = create_key("seo", "--scope", "send,approve,read")
        self.keys["admin"] = os.environ["OPERATOR_KEY"]
        devices = [
            {"user_id": int(number), "device_id": f"phone-{number}", "push_type": ("apns", "fcm")[int(number) % 2],
             "push_token": f"{int(number):064x}", "app_version": "3.2.0", "tags": ["orders"]}
            for number in [*range(1001, 1001 + users), largest_user]
        ]
        operator("/v1/devices/import", "".join(json.dumps(device) + "\n" for device in devices), "POST", "application/x-ndjson")
        self.list = range(1001, 1001 + users)

    def operator(self, name, **options):
        """Signs a person in, in a window of their own."""
        from browser import Operator

        return Operator(self.browser, self.keys[name], **options)
