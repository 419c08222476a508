"""Writes a manual page from what a program prints for --experimental-dump-help.

usage: PROGRAM --experimental-dump-help | manual.py VERSION DATE > PROGRAM.1
"""

import json
import sys

# What the help of the programs does not say, by the name of the page.
SECTIONS = {
    "push-server": [
        (
            "ENVIRONMENT",
            [
                ("Each setting", "The name of the setting in capitals, with _ for the dot: HTTP_PORT is http.port. It overrides the file. "
                 "push-server settings prints all settings. A secret may come from a file: OPERATOR_KEY_FILE."),
                ("CREDENTIALS_DIRECTORY", "The folder of the secrets, which systemd sets: push-server_NAME is the setting NAME."),
                ("SERVER_URL, OPERATOR_KEY", "The server that pushes, status and the other clients of a running server call, and the key they use."),
                ("KAKAO_ACCESS_TOKEN", "The access token with which doctor checks kakao.app_id."),
                ("SWIFT_BACKTRACE", "What a crash report contains. The units leave out registers, which come with the memory they point to."),
            ],
        ),
        (
            "EXIT STATUS",
            [
                ("0", "Success."),
                ("1", "Failure, a check of doctor that is wrong, or a push that ended without being sent."),
                ("2", "What was asked for needs attention: a halted or paused push, webhooks that are not delivered."),
                ("64", "Invalid arguments."),
                ("78", "Invalid settings, or a database that this version cannot use. The units do not start the server again."),
            ],
        ),
        (
            "FILES",
            [
                ("/etc/push-server/push-server.yaml", "The settings of push-server.service."),
                ("/etc/push-server/push-server.credentials/", "Its secrets, each in a file named like the setting: kakao.admin_key. "
                 "Only root reads them; the unit passes them on."),
                ("/etc/push-server/NAME.yaml, NAME.credentials/", "Those of push-server@NAME.service."),
                ("/var/lib/push-server/", "The journal of Kakao's calls that are not stored in PostgreSQL yet."),
                ("/usr/share/doc/push-server/", "All pages, beginning with docs/installing.md, and alerts and a dashboard in examples/."),
            ],
        ),
        ("SEE ALSO", "kakao-sandbox(1), systemctl(1), systemd.exec(5), journalctl(1), psql(1)"),
    ],
    "kakao-sandbox": [
        ("ENVIRONMENT", [("KAKAO_ADMIN_KEY", "The Admin key that callers must present, without --admin-key.")]),
        ("EXIT STATUS", [("0", "Ended by SIGTERM or SIGINT."), ("1", "Failure."), ("64", "Invalid arguments.")]),
        ("SEE ALSO", "push-server(1), /usr/share/doc/kakao-sandbox/sandbox.md"),
    ],
}
ESCAPES = str.maketrans({"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"})


def escaped(text):
    text = text.translate(ESCAPES)
    return r"\&" + text if text.startswith(".") else text


def paragraphs(text):
    """Lines that begin with a space are shown as they are."""
    for paragraph in text.split("\n\n"):
        if paragraph.startswith(" "):
            yield from [".PP", ".nf", *map(escaped, paragraph.splitlines()), ".fi"]
        else:
            yield from [".PP", *(escaped(line.strip()) for line in paragraph.splitlines())]


def names(argument):
    if argument["kind"] == "positional":
        return f"\\fI{escaped(argument['valueName'])}\\fR"
    texts = [("-" if name["kind"] == "short" else "--") + name["name"] for name in argument["names"]]
    value = f" \\fI{escaped(argument['valueName'])}\\fR" if argument["kind"] == "option" else ""
    return ", ".join(f"\\fB{escaped(text)}\\fR{value}" for text in texts)


def items(pairs):
    for name, text in pairs:
        yield from [".TP", name, escaped(text)]


def shown(arguments, left_out):
    for argument in arguments:
        if argument["shouldDisplay"] and argument["valueName"] not in left_out:
            text = argument.get("abstract", "")
            if values := argument.get("allValues"):
                text += f" (values: {', '.join(values)})"
            if default := argument.get("defaultValue"):
                text += f" (default: {default})"
            yield names(argument), text.strip()


def described(command, path):
    """The sections of the commands that do something, after those of their group."""
    path = [*path, command["commandName"]]
    arguments = list(shown(command.get("arguments", []), {"help", "version"}))
    yield f'.SS "{escaped(" ".join(path))}"'
    yield escaped(command.get("abstract", ""))
    if discussion := command.get("discussion"):
        yield from paragraphs(discussion)
    yield from items(arguments)
    for subcommand in command.get("subcommands", []):
        yield from described(subcommand, path)


def page(program, version, date):
    name = program["commandName"]
    abstract = program["abstract"]
    subcommands = [command for command in program.get("subcommands", []) if command["commandName"] != "help"]
    yield f'.TH {name.upper()} 1 {date} "{name} {version}" "User Commands"'
    yield from [".SH NAME", f"{escaped(name)} \\- {escaped(abstract[0].lower() + abstract[1:].rstrip('.'))}", ".SH SYNOPSIS"]
    if subcommands:
        yield from [f".B {escaped(name)}", r"\fIcommand\fR [\fIargument\fR ...]", ".br", f".B {escaped(name)}", r"\fIcommand\fR \-\-help"]
    else:
        yield from [f".B {escaped(name)}", r"[\fIoption\fR ...]"]
    yield from [".SH DESCRIPTION", *paragraphs(program.get("discussion", "")), ".SH OPTIONS"]
    yield from items(shown(program["arguments"], set()))
    if subcommands:
        yield ".SH COMMANDS"
        for command in subcommands:
            yield from described(command, [])
    for title, content in SECTIONS[name]:
        yield f'.SH "{title}"'
        if isinstance(content, str):
            yield escaped(content)
        else:
            yield from items((f"\\fB{escaped(name)}\\fR", text) for name, text in content)


print("\n".join(page(json.load(sys.stdin)["command"], *sys.argv[1:])))
