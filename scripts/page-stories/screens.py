"""All screens, with data on them, for the checks that look at each of them."""
from data import largest_user, send, share, wait_for_state

title, text = "Strawberry cheesecake", "2,000 won off until Sunday. Order in the app, and it is ready when you come."


def addresses(world):
    """Makes pushes in several states once, and returns the address of each screen."""
    if not hasattr(world, "addresses"):
        kim, waits = world.keys["kim"], "2099-01-01T00:00:00Z"
        done = wait_for_state(send("Order 7781 ready", [1001], title, text, kim), "done")
        proposed = send("Summer sale, to all who like cake", [1001, 1002, 1003], title, text, kim, {"link": "https://example.com/cakes"})
        scheduled = send("Reminder", [1001, 1002], title, text, kim, send_at=waits)
        for campaign in ("spring", "summer"):
            share(campaign, {"story": campaign})
        world.addresses = {
            "overview": "", "pushes": "pushes", "pushes-filtered": "pushes?state=canceled&name=none", "new": "new",
            "push-done": f"push/{done}", "push-proposed": f"push/{proposed}", "push-scheduled": f"push/{scheduled}",
            "new-copy": f"new?copy={done}", "push-unknown": "push/00000000-0000-0000-0000-000000000000",
            "user": "user", "user-found": "user/1001", "user-largest": f"user/{largest_user}", "user-none": "user/5",
            "sharing": "sharing?group=campaign", "callbacks": "sharing/callbacks", "shares": "sharing/shares",
            "template": "sharing/template", "records": "records", "keys": "records/keys", "sessions": "records/sessions", "try": "try",
        }
    return world.addresses


def fill_form(person):
    """Checks a push to users in the form of a new one, so that its findings are shown."""
    person.open("new")
    person.choose("new.kind.informational")
    person.field("new.title").fill(title)
    person.field("new.text").fill(text)
    person.choose("new.to.users")
    person.field("new.users").fill("1001\n1002\n1003")
    person.main.locator("details:visible").evaluate_all("all => all.forEach(part => { part.open = true })")
    person.press("new.check")
    person.button("new.ask").wait_for()
    person.settle()


# The dialogs: the screen, and the text of the button that opens each of them.
dialogs = [("overview", "sender.stop"), ("push-proposed", "action.cancel"), ("keys", "keys.make"), ("callbacks", "sharing.export")]


def each(world, person):
    """Shows each screen and dialog to an administrator, one after the other."""
    for name, address in addresses(world).items():
        person.open(address)
        yield name
        if name == "new":
            fill_form(person)
            yield "new-checked"
            person.press("new.clear")
        for screen, key in dialogs:
            if screen == name:
                person.press(key)
                yield f"{name}-dialog"
                person.page.keyboard.press("Escape")
