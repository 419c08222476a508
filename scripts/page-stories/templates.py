"""The editor of templates."""
from playwright.sync_api import expect

from browser import Operator


def calendar_ids(world):
    """The editor says which ids a calendar message takes, and nothing of them for another template."""
    for language in ("ko", "en"):
        with Operator(world.browser, world.keys["admin"], language=language) as admin:
            admin.open("sharing/template")
            hint = admin.main.get_by_text(admin.t("template.calendar.ids"))
            expect(hint).to_be_hidden()
            admin.field("template.start").select_option("calendar")
            expect(hint).to_be_visible()
            expect(admin.page.frame_locator("iframe").get_by_text(admin.t("cake.title")).first).to_be_visible()
            admin.field("template.start").select_option("text")
            expect(hint).to_be_hidden()


checks = [("templates: the ids of a calendar message", calendar_ids)]
