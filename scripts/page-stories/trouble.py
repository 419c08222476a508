"""Stories of trouble: Kakao refuses the key, everything is stopped, a key is revoked, lacks a scope or is wrong."""
import time

from playwright.sync_api import expect

from browser import Operator, base
from data import end_faults, operator, post, refuse_key, send, show, status, wait_for_state, wait_until


def refused_key(world):
    """The banner and the push say within 10 s that Kakao refuses the key; once it is accepted again, the push is resumed."""
    with world.operator("park", language="ko") as park, world.operator("han", language="en") as han:
        park.open("", park.t("overview"))
        refuse_key()
        push = send("Receipt", [1001], key=world.keys["kim"])
        wait_until(10, "the sender to halt", lambda: status()["sender"]["state"] == "halted")
        park.sees(park.t("sender.halted"), park.banner)
        park.sees("Receipt", park.main)
        han.open("user/1001")
        han.sees(han.t("sender.halted"), han.banner)
        park.main.get_by_role("link", name="Receipt").first.click()
        park.sees_state("halted")
        end_faults()
        park.press("action.resume")
        park.confirm("action.resume")
        park.sees_state("done")
        park.sees(park.t("sender.running"), park.banner)
        assert show(push)["users"]["sent"] == 1, show(push)


def stop_and_start(world):
    """Everything is stopped from a phone, with a reason that all see, and started again."""
    reason = "가격이 틀림"
    with world.operator("park", language="ko", width=390) as park, world.operator("kim", language="en") as kim:
        park.open("pushes", park.t("pushes"))
        park.press("sender.stop")
        expect(park.field("field.reason")).to_be_visible()
        park.confirm("sender.stop.action", reason=reason)
        park.sees(park.t("sender.stopped"), park.banner)
        assert (status()["sender"]["reason"], status()["sender"]["stopped_by"]) == (reason, "park"), status()["sender"]
        push = send("Waits", [1001], key=world.keys["kim"])
        kim.sees(kim.t("sender.stopped"), kim.banner, timeout=11)
        kim.sees(reason, kim.banner)
        expect(kim.banner.get_by_role("button", name=kim.t("sender.start"), exact=True)).to_have_count(0)
        assert show(push)["users"]["sent"] == 0, show(push)
        park.press("sender.start")
        park.confirm("sender.start")
        park.sees(park.t("sender.running"), park.banner)
        wait_for_state(push, "done")


acting = (
    "action.pause", "action.resume", "action.approve", "action.reject", "action.cancel", "sender.stop", "sender.start", "new.check",
    "new.testers", "compare.mend", "keys.make", "records.export",
)


def read_only(world):
    """A key that only reads has no button that acts, and the server answers 403 to calls by hand."""
    push = send("Proposed", [1001, 1002, 1003], key=world.keys["kim"])
    with world.operator("choi", language="ko", provoked=(403,)) as choi:
        for address in ("", "pushes", f"push/{push}", "user/1001", "sharing", "sharing/callbacks", "sharing/shares"):
            choi.open(address)
            expect(choi.main.get_by_role("heading", level=1)).to_be_visible()
            for key in acting:
                assert choi.button(key).count() == 0, f"#/{address} has the button {key} for a key that only reads"
            assert choi.page.locator("button.danger").count() == 0, f"#/{address} has a button that destroys"
        for name in ("new", "records", "try"):
            assert choi.page.get_by_role("link", name=choi.t(name), exact=True).count() == 0, f"the navigation has {name}"
        for path in (f"/v1/pushes/{push}/{act}" for act in ("approve", "reject", "cancel", "pause", "resume", "retry")):
            body = {"reason": "by hand"} if path.endswith("reject") else {}
            assert choi.by_hand("POST", path, body)[0] == 403, path
        for method, path, body in [
            ("POST", "/v1/sender/stop", {}), ("POST", "/v1/sender/start", {}), ("POST", "/v1/keys", {"name": "a", "scopes": ["read"]}),
            ("DELETE", "/v1/users/1001", None), ("GET", "/v1/devices/export?reason=by-hand", None), ("GET", "/v1/audit", None),
            ("POST", "/v1/pushes", {"audience": {"uuids": [1001]}, "message": {"for_apns": {"message": "a"}}}),
        ]:
            assert choi.by_hand(method, path, body)[0] == 403, (method, path, choi.by_hand(method, path, body))
        assert show(push)["state"] == "proposed", show(push)


def revoked_key(world):
    """A revoked key ends its session: the next action leads to the sign-in."""
    made = post("/v1/keys", {"name": "guest", "scopes": ["read"]})
    with Operator(world.browser, made["key"], language="en", provoked=(401,)) as guest:
        operator(f"/v1/keys/{made['id']}", method="DELETE")
        limit = time.monotonic() + 3
        form = guest.page.get_by_role("button", name=guest.t("sign-in"), exact=True)
        for address in ("pushes", "user/1001", "") * 1000:
            guest.page.evaluate("address => { location.hash = address }", f"#/{address}")
            guest.settle()
            if form.count():
                break
            assert time.monotonic() < limit, "the session of a revoked key is not ended after 3 s"
        assert guest.page.get_by_role("navigation").count() == 0, "the navigation stays after the session has ended"
        assert guest.page.locator("#banner").is_hidden(), "the banner stays after the session has ended"
        guest.enter(made["key"])
        expect(guest.page.get_by_role("alert")).not_to_be_empty()


def wrong_key(world):
    """Wrong keys are answered with 401 and then 429, which the page shows with the wait."""
    with Operator(world.browser, language="ko", provoked=(401, 429)) as stranger:
        stranger.page.goto(f"{base}/ui/")
        for number in range(6):
            with stranger.page.expect_response("**/v1/session") as answer:
                stranger.field("field.key").fill(f"kps_wrong_{number}")
                stranger.press("sign-in")
            expect(stranger.page.get_by_role("alert")).not_to_be_empty()
            if answer.value.status == 429:
                break
        assert answer.value.status == 429, f"after {number + 1} wrong keys the answer is {answer.value.status}"
        wait = answer.value.headers["retry-after"]
        stranger.sees(stranger.t("problem.too-many-bad-keys", wait=wait))


checks = [
    ("trouble: Kakao refuses the key", refused_key),
    ("trouble: everything is stopped and started from a phone", stop_and_start),
    ("trouble: a key that only reads acts on nothing", read_only),
]
# Others could not sign in for a while after these.
last_checks = [("trouble: a revoked key is signed out", revoked_key), ("trouble: wrong keys have to wait", wrong_key)]
