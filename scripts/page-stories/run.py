"""Runs the checks of the page, and prints one line for each. See scripts/page.

usage: run.py FOLDER [--pictures | NAME ...]: only the checks whose titles contain a name; pictures of failures go into the folder.
"""
import re, sys, time, traceback

from playwright.sync_api import sync_playwright

import keyboard, looks, pictures, quiet, sending, serving, templates, trouble, untrusted, words
from browser import Operator
from data import World, end_faults, operator

checks = [
    *sending.checks, *serving.checks, *trouble.checks, *untrusted.checks, *templates.checks, *keyboard.checks, *words.checks, *looks.checks,
    *quiet.checks, *trouble.last_checks, *quiet.last_checks
]


def explain(error):
    """Returns what an error says, without Playwright's log of its attempts."""
    line = next((frame.lineno, frame.filename.rsplit("/", 1)[-1]) for frame in reversed(traceback.extract_tb(error.__traceback__))
                if "page-stories" in frame.filename and "browser.py" not in frame.filename)
    lines = [text for text in str(error).splitlines() if text.strip()] or [type(error).__name__]
    return f"{line[1]}:{line[0]}: " + "\n      ".join(lines[:6])


def is_chosen(title, names):
    return not names or title.startswith("all:") or any(name in title for name in names)


def run(folder, names):
    failures = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        world = World(browser)
        if names == ["--pictures"]:
            return pictures.take(world)
        for title, check in checks:
            if not is_chosen(title, names):
                continue
            begin = time.monotonic()
            problem = note = None
            try:
                note = check(world)
            except (Exception, SystemExit) as error:
                problem = explain(error)
            print(f"{'failed' if problem else 'ok':7}{time.monotonic() - begin:6.1f} s  {title}{': ' + note if note else ''}", flush=True)
            if problem:
                failures += 1
                print(f"      {problem}")
                for number, person in enumerate(list(Operator.all)):
                    picture = f"{folder}/{re.sub('[^a-z]+', '-', title)[:40]}-{number + 1}.png"
                    person.page.screenshot(path=picture, full_page=True)
                    print(f"      {picture}")
            for person in list(Operator.all):
                person.close()
            end_faults()
            operator("/v1/sender/start", "", "POST")
        browser.close()
    return failures


if __name__ == "__main__":
    failures = run(sys.argv[1], sys.argv[2:])
    if failures:
        sys.exit(f"{failures} checks failed")
