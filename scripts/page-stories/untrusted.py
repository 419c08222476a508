"""Texts that others write are shown as texts, and the largest user id as itself."""
import json

from playwright.sync_api import expect

from browser import Texts, records
from data import create_key, largest_user, markup, operator, post, send, share, wait_for_state

# The name of a push is shown in lists, its texts on its own screen.
name, title, text, value = (f"{markup}{part}" for part in ("name", "title", "text", "value"))


def inert(person):
    """Checks that no frame of the page has made an element of the markup or run it."""
    for frame in person.page.frames:
        found = frame.evaluate("() => [Boolean(window.isHacked), document.querySelectorAll('[src=x], [onerror]').length]")
        assert found == [False, 0], f"{frame.url} has run or parsed {markup}: {found}"


def markup_is_text(world):
    """HTML in each text, name, argument and template stands there as it was written."""
    proposed = send(name, [1001, 1002, 1003], title, text, world.keys["kim"], {"link": value})
    done = wait_for_state(send(name, [1001], title, text, world.keys["kim"], {"link": value}), "done")
    create_key(f"{markup}key", "--scope", "read")
    share(f"{markup}campaign", {"story": f"{markup}argument"})
    for language in ("ko", "en"):
        with world.operator("admin", language=language) as admin:
            def sees(address, *texts):
                admin.open(address)
                for words in texts:
                    # The status that the overview shows is some seconds old.
                    admin.sees(words, admin.main, timeout=20)
                inert(admin)

            sees("pushes", name)
            sees(f"push/{proposed}", name, title, text)
            assert markup in admin.page.title() or name in admin.page.title(), admin.page.title()
            sees(f"push/{done}", name, title, text)
            sees("user/1001", name)
            sees("records/keys", f"{markup}key")
            sees("sharing?group=campaign", f"{markup}campaign")
            sees("sharing?group=arg.story", f"{markup}argument")
            sees("sharing/callbacks", f"{markup}argument")
            sees("sharing/shares", f"{markup}campaign", f"{markup}argument")
            sees(f"new?copy={proposed}")
            expect(admin.field("new.title")).to_have_value(title)
            expect(admin.field("new.text")).to_have_value(text)
            admin.sees(text, admin.main.locator(".phone"))
            inert(admin)
            bubble(admin)
    foreign = {path for _, path in records.calls if path.endswith("/x")}
    assert not foreign, f"the markup has made a request: {foreign}"


def bubble(admin):
    """The template editor shows the markup of each text of a template."""
    words = {part: f"{markup}{part}" for part in ("title", "description", "button")}
    link = {"web_url": "https://example.com"}
    template = {
        "object_type": "feed",
        "content": {"title": words["title"], "description": words["description"], "image_url": "https://example.com/a.png", "link": link},
        "buttons": [{"title": words["button"], "link": link}],
    }
    admin.open("sharing/template")
    admin.field("template.json").fill(json.dumps(template))
    frame = admin.page.frame_locator("iframe")
    expect(frame.get_by_text(words["title"]).first).to_be_visible()
    expect(frame.get_by_text(words["button"]).first).to_be_visible()
    inert(admin)


def large_id(world):
    """A user id that JavaScript's numbers do not hold is found, sent to and linked to as it is, and its phone is removed."""
    push = wait_for_state(send("Largest", [int(largest_user)], key=world.keys["kim"]), "done")
    with world.operator("han", language="ko") as han:
        han.open("user", han.t("user"))
        field = han.main.get_by_role("textbox").first
        field.fill(largest_user)
        field.press("Enter")
        han.settle()
        assert han.page.url.endswith(f"#/user/{largest_user}"), han.page.url
        han.sees(f"phone-{largest_user}", han.main)
        han.sees("Largest", han.main)
        assert any(path == f"/v1/users/{largest_user}/devices" for _, path in records.calls), "another user was asked for"
        han.open(f"push/{push}")
        han.sees_state("done")
    with world.operator("kim", language="en") as kim:
        kim.open(f"new?copy={push}")
        kim.choose("new.to.users")
        expect(kim.field("new.users")).to_have_value(largest_user)
        kim.press("new.check")
        kim.sees(kim.t("user.count", count=1), kim.main)
    devices = f"/v1/devices?user_id={largest_user}"
    with world.operator("han", language="ko") as han:
        han.open(f"user/{largest_user}")
        han.press("device.remove.open")
        assert json.loads(operator(devices))["items"], "removed before it was confirmed"
        han.confirm("device.remove")
        han.sees(han.t("device.remove.done", device=f"phone-{largest_user}"))
        han.sees(han.t("devices.none"), han.main)
        assert not json.loads(operator(devices))["items"], "not removed"
    records_of_user = json.loads(operator(f"/v1/audit?operation=deleteDevice&user_id={largest_user}"))["items"]
    assert [record["actor"]["name"] for record in records_of_user] == ["han"], records_of_user


checks = [
    ("untrusted: HTML in every text is shown as text", markup_is_text),
    ("untrusted: user 9223372036854775807", large_id),
]
