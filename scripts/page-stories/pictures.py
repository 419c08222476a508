"""Takes the pictures of the documentation: English, light and 1280 wide, one in Korean and one as a phone shows it."""
import io, json, os

from PIL import Image

from data import operator, send, share, wait_for_state, wait_until
from screens import fill_form, title, text

folder, limit = os.environ.get("PICTURES", "docs/images"), 80 * 1024


def save(person, name, whole=False):
    """Saves what is seen, with a palette of as many colors as fit into the limit."""
    person.page.evaluate("document.activeElement.blur()")
    picture = Image.open(io.BytesIO(person.page.screenshot(full_page=whole))).convert("RGB")
    for colors in (256, 128, 64, 32):
        data = io.BytesIO()
        picture.quantize(colors, dither=Image.Dither.NONE).save(data, "PNG", optimize=True)
        if len(data.getvalue()) <= limit:
            break
    else:
        raise AssertionError(f"{name}.png has {len(data.getvalue())} bytes")
    with open(f"{folder}/{name}.png", "wb") as file:
        file.write(data.getvalue())
    print(f"{folder}/{name}.png  {len(data.getvalue()) / 1024:.0f} KB, {colors} colors")


def days(world):
    """Pushes and shares of an ordinary day, one push that is being sent and one that waits for its approval."""
    kim, lee = world.keys["kim"], world.keys["lee"]
    for name, to, words in [
        ("Order 7781 ready", [1001], ("Order ready", "Your iced americano is ready at the counter.")),
        ("Table for four", [1001, 1002], ("See you at seven", "Your table for four is reserved for tonight.")),
        ("New menu", [1002], ("New on the menu", "Strawberry cheesecake, from today in all stores.")),
    ]:
        wait_for_state(send(name, to, *words, kim), "done")
    for campaign, number in (("spring", 5), ("cheesecake", 8), ("opening", 3)):
        for _ in range(number):
            share(campaign, {"story": campaign})
    proposed = send("Price list of June", [1001, 1002, 1003], "New prices", "Our prices of June are in the app now.", kim)
    running = send("Strawberry season", list(world.list), title, text, kim, {"link": "https://example.com/cakes"}, users_per_second=40)
    operator(f"/v1/pushes/{running}/approve", "{}", "POST", headers={"Authorization": f"Bearer {lee}"})
    wait_until(30, "the push to be half sent", lambda: json.loads(operator(f"/v1/pushes/{running}"))["users"]["sent"] > 300)
    return running, proposed


def try_it(admin):
    """Presses the buttons of the story, and waits for the last step of each."""
    admin.open("try")
    for key, last in (("register", "registered"), ("send", "done"), ("share", "shared"), ("friend", "counted")):
        admin.press(f"try.{key}")
        admin.sees(admin.t(f"try.step.{last}"), admin.main)
    admin.page.evaluate("scrollTo(0, 0)")


def take(world):
    running, proposed = days(world)
    with world.operator("admin", language="en") as admin, world.operator("lee", language="ko", width=390) as phone:
        # The chart of the speed grows while it is watched.
        with world.operator("admin", language="en") as watcher, world.operator("admin", language="ko") as korean:
            for person in (watcher, korean):
                person.open(f"push/{running}")
                person.sees_state("sending")
            watcher.main.locator("svg.chart rect").nth(5).wait_for(state="attached")
            admin.open("")
            admin.sees("Strawberry season", admin.main)
            save(admin, "overview")
            save(watcher, "push")
            save(korean, "page-ko")
        phone.open(f"push/{proposed}")
        phone.sees_state("proposed")
        save(phone, "phone")
        fill_form(admin)
        admin.page.evaluate("scrollTo(0, 0)")
        save(admin, "new-push")
        admin.open("user/1001")
        admin.sees("phone-1001", admin.main)
        save(admin, "user")
        admin.open("sharing?group=campaign")
        admin.sees("cheesecake", admin.main)
        save(admin, "sharing")
        try_it(admin)
        save(admin, "try")
