"""Stories of a push: written, tested, approved, watched, paused and resumed."""
import json, re

from playwright.sync_api import expect

from data import send, show, users, wait_for_state

title, text = "여름 할인 시작", "오늘부터 7일간 전 품목 20% 할인입니다."


def write(person):
    """Fills the form of a new push, to the testers."""
    person.open("new", person.t("new"))
    person.field("new.name").fill("여름 할인")
    person.choose("new.kind.informational")
    person.field("new.title").fill(title)
    person.field("new.text").fill(text)


def to_users(person, numbers, pace):
    """Chooses the users of a file and a pace, and checks."""
    person.choose("new.to.users")
    lines = "user_id\n" + "".join(f"{number}\n" for number in numbers)
    person.field("new.file").set_input_files({"name": "users.csv", "mimeType": "text/csv", "buffer": lines.encode()})
    person.sees(person.t("new.file.read", count=f"{len(numbers):,}", max="10,000"))
    person.field("new.pace").fill(str(pace))
    person.press("new.check")


def push_id(person):
    person.page.wait_for_url(re.compile(r"#/push/"))
    return person.page.url.rsplit("/", 1)[-1]


def send_with_approval(world):
    """Marketing writes, checks, tests and proposes; another person reads the text and approves; both watch it to its end."""
    with world.operator("kim", language="ko") as kim, world.operator("lee", language="en") as lee:
        write(kim)
        kim.sees(text, kim.main.get_by_role("region", name=kim.t("new.preview")))
        kim.press("new.check")
        kim.sees(kim.t("users.count", count=2), kim.main)
        expect(kim.button("new.ask")).to_have_count(0)
        kim.press("new.testers")
        tests = kim.main.get_by_role("region", name=kim.t("new.tests"), exact=True)
        kim.sees(kim.t("state.done"), tests)
        assert "2" in tests.inner_text(), tests.inner_text()

        to_users(kim, world.list, 300)
        kim.sees(kim.t("users.count", count=f"{users:,}"), kim.main)
        kim.sees(kim.t("new.approval.needed", name="kim"), kim.main)
        kim.press("new.ask")
        kim.confirm("new.ask.action", count=str(users))
        push = push_id(kim)
        kim.sees_state("proposed")
        expect(kim.button("action.approve")).to_have_count(0)

        lee.open(f"push/{push}")
        lee.sees(title, lee.main.locator(".phone"))
        lee.sees(text, lee.main.locator(".phone"))
        lee.sees(lee.t("next.approval", name="kim"), lee.main)
        lee.press("action.approve")
        lee.confirm("action.approve")
        for person in (kim, lee):
            bar = person.main.get_by_role("progressbar").first
            person.sees_state("sending")
            bar.evaluate("""bar => new Promise(done => {
                const seen = new Set()
                const look = () => {
                  const { value } = document.querySelector('main progress') ?? bar
                  if (value > 0 && value < %d) seen.add(value)
                  seen.size >= 2 ? done() : requestAnimationFrame(look)
                }
                look()
              })""" % users)
        for person in (kim, lee):
            person.sees_state("done")
            sent = person.main.locator("dl.facts > div").filter(has_text=person.t("sent")).first
            expect(sent.locator("dd")).to_have_text(f"{users:,}")
            expect(person.main.get_by_role("progressbar").first).to_have_attribute("value", str(users))
        shown = show(push)
        assert shown["users"]["sent"] == users and shown["created_by"] == "kim" and shown["approved_by"] == "lee", shown


def send_once(world):
    """A second press of a button, and a second attempt after a lost answer, send nothing again."""
    with world.operator("kim", language="en") as kim:
        write(kim)
        to_users(kim, [1001, 1002], 1)
        bodies = []

        def lose(route):
            if "dry_run" in (route.request.post_data or "") or route.request.method != "POST":
                return route.continue_()
            bodies.append(json.loads(route.fetch().text()))
            return route.abort() if len(bodies) == 1 else route.fulfill(json=bodies[-1])

        kim.page.route("**/v1/pushes", lose)
        kim.provoked = ("ERR_FAILED",)
        kim.press("new.send")
        dialog = kim.page.locator("dialog[open]")
        dialog.get_by_role("button", name=kim.t("new.send.action"), exact=True).click()
        kim.sees(kim.t("new.again"), dialog)
        kim.confirm("new.send.action")
        assert len(bodies) == 2 and bodies[0]["id"] == bodies[1]["id"] == push_id(kim), bodies


def pause_and_resume(world):
    """Whoever is on call pauses a push from a phone, sees that it stands still, and resumes it."""
    push = send("Newsletter", list(world.list), users_per_second=100, key=world.keys["kim"])
    with world.operator("lee", language="ko") as lee, world.operator("park", language="ko", width=390) as park:
        lee.open(f"push/{push}")
        lee.press("action.approve")
        lee.confirm("action.approve")
        park.open(f"push/{push}")
        park.sees_state("sending")
        park.press("action.pause")
        park.confirm("action.pause")
        park.sees_state("paused")
        lee.sees_state("paused")
        sent = show(push)["users"]["sent"]
        assert sent < users, f"{sent} users were sent to before the pause"
        park.press("action.resume")
        park.confirm("action.resume")
        park.sees_state("done", timeout=20)
        assert show(push)["users"]["sent"] == users, show(push)["users"]


def reject_with_reason(world):
    """An approver rejects a push: the author sees who, and why."""
    reason = "The price is wrong"
    push = send("Price list", [1001, 1002, 1003], key=world.keys["kim"])
    with world.operator("kim", language="en") as kim, world.operator("lee", language="en") as lee:
        kim.open(f"push/{push}")
        lee.open(f"push/{push}")
        lee.press("action.reject")
        lee.confirm("action.reject", reason=reason)
        kim.sees_state("rejected")
        kim.open(f"push/{push}")
        kim.sees(reason, kim.main)
        decided = kim.main.locator("dd", has=kim.page.locator("time")).filter(has_text="lee")
        assert "[object" not in kim.main.inner_text() and decided.count() == 1, kim.main.inner_text()
        kim.open("pushes")
        kim.sees(kim.t("state.rejected"), kim.main.locator("tbody tr").first)
        assert show(push)["stopped_by"] == "lee", show(push)
    with world.operator("admin", language="en") as admin:
        admin.open(f"push/{push}")
        admin.main.get_by_role("link", name=admin.t("records.log"), exact=True).click()
        admin.sees(admin.t("audit.rejectPush"), admin.main.locator("tbody"))
        admin.settle()
        rows = admin.main.locator("tbody tr")
        assert rows.count() == rows.filter(has_text=push).count(), rows.all_inner_texts()


def approve_own(world):
    """The author's key approves in no session, even with the scope for it."""
    push = send("Own push", [1001, 1002, 1003], key=world.keys["seo"])
    with world.operator("seo", language="ko") as first, world.operator("seo", language="en", provoked=(409,)) as second:
        first.open(f"push/{push}")
        second.open(f"push/{push}")
        if second.button("action.approve").count():
            second.press("action.approve")
            dialog = second.page.locator("dialog[open]")
            dialog.get_by_role("button", name=second.t("action.approve.do"), exact=True).click()
            expect(dialog.get_by_role("alert")).to_be_visible()
        code, answer = second.by_hand("POST", f"/v1/pushes/{push}/approve", {})
        assert code == 409 and "own-push" in answer, (code, answer)
        assert show(push)["state"] == "proposed", show(push)
    with world.operator("lee", language="ko") as lee:
        lee.open(f"push/{push}")
        lee.press("action.approve")
        lee.confirm("action.approve")
        wait_for_state(push, "done")
        lee.sees_state("done")


checks = [
    ("sending: written, tested, proposed, approved and watched to the end", send_with_approval),
    ("sending: a lost answer does not send twice", send_once),
    ("sending: paused and resumed from a phone", pause_and_resume),
    ("sending: rejected with a reason", reject_with_reason),
    ("sending: the author cannot approve with a second session", approve_own),
]
