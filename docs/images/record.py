#!/usr/bin/env python3
"""Records docs/images/terminal.svg: runs each command for real, and draws what it printed.

    cargo build -p fencepost-cli && python3 docs/images/record.py target/debug/fencepost >docs/images/terminal.svg

With --transcript it prints the text only, without the numbers that differ from run to run; a test compares that with the
picture.
"""

import html
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

WIDTH, LINE, TOP, LEFT, FONT = 860, 21, 58, 22, 14
# Seconds for which a line is looked at before the next one appears.
PAUSE_COMMAND, PAUSE_LINE, PAUSE_NOTE = 1.1, 0.35, 0.9

REPORT = """#!/bin/sh
echo "report written under token $FENCEPOST_TOKEN"
"""
LONG = """#!/bin/sh
echo running
exec sleep 60
"""


def record(program):
    """The lines of the terminal: (kind, text)."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, text in (("report", REPORT), ("long-report", LONG)):
            (place / name).write_text(text)
            (place / name).chmod(0o755)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FENCEPOST_")}
        environment |= {"HOME": folder, "NO_COLOR": "1", "FENCEPOST_STORE": "sqlite:locks.db", "FENCEPOST_LABEL": "web-1"}

        def start(command, **streams):
            words = command.split()
            words[0] = program
            return subprocess.Popen(words, cwd=folder, env=environment, text=True, **streams)

        def run(command):
            process = start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            said = process.communicate()[0].splitlines()
            return said, process.returncode

        lines = []

        def show(command, said, code=0):
            lines.append(("command", command))
            lines.extend(("said", line) for line in said)
            if code:
                lines.append(("code", f"exit code {code}"))

        command = "fencepost -v run nightly -- ./report"
        said, code = run(command)
        show(command, said, code)
        token = next(line.rsplit(" ", 1)[1] for line in said if line.startswith("report"))

        lines.append(("note", "# web-1 holds the lock; another server comes"))
        holder = start("fencepost run nightly -- ./long-report", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert holder.stdout.readline() == "running\n"
        command = "fencepost run --no-wait nightly -- ./report"
        show(command, *run(command))

        lines.append(("note", "# web-1 loses the lock: its command is ended in time"))
        released = run("fencepost release --force nightly")
        assert released[1] == 0, released
        said = holder.communicate()[1].splitlines()
        show("fencepost run nightly -- ./long-report", ["running", *said], holder.returncode)

        lines.append(("note", "# a late write under the first token is rejected"))
        command = f"fencepost check nightly {token}"
        show(command, *run(command))
        return lines


def without_numbers(text):
    return re.sub(r"\bfor \d[\d a-z]*$", "for …", re.sub(r"waited \d+ ms", "waited … ms", re.sub(r"\d{6,}", "…", text)))


def spoken(kind, text):
    return ("$ " if kind == "command" else "") + text


def draw(lines):
    height = TOP + LINE * (len(lines) + sum(kind == "note" for kind, _ in lines)) + 8
    transcript = "\n".join(spoken(kind, without_numbers(text)) for kind, text in lines)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img"'
        ' aria-labelledby="title desc">',
        "  <title id=\"title\">Fencepost in a terminal</title>",
        f'  <desc id="desc">{html.escape(transcript, quote=False)}</desc>',
        "  <style>",
        f"    text {{ font: {FONT}px ui-monospace, \"DejaVu Sans Mono\", Menlo, Consolas, monospace; fill: #d6dbe4;"
        " white-space: pre }",
        "    .note { fill: #8b95a7 } .prompt { fill: #6fcf97 } .command { fill: #ffffff; font-weight: 600 }",
        "    .code { fill: #f2c14e } .head { fill: #8b95a7; font-size: 13px }",
        "    g.line { animation: appear 0.2s ease-out both }",
        "    @keyframes appear { from { opacity: 0.7 } to { opacity: 1 } }",
        "    @media (prefers-reduced-motion: reduce) { g.line { animation: none } }",
        "  </style>",
        f'  <rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="10" fill="#171b24" stroke="#3a4252"/>',
        '  <circle cx="22" cy="20" r="6" fill="#e0655f"/><circle cx="42" cy="20" r="6" fill="#e5b54a"/>'
        '<circle cx="62" cy="20" r="6" fill="#5fb56a"/>',
        f'  <text class="head" x="{WIDTH // 2}" y="25" text-anchor="middle">one lock, one holder, one effective writer</text>',
    ]
    y, at = TOP, 0.3
    for kind, text in lines:
        if kind == "note":
            y += LINE
        prompt = '<tspan class="prompt">$ </tspan>' if kind == "command" else ""
        shown = html.escape(text, quote=False)
        out.append(
            f'  <g class="line" style="animation-delay: {at:.2f}s"><text x="{LEFT}" y="{y}" xml:space="preserve">{prompt}'
            f'<tspan class="{kind}">{shown}</tspan></text></g>'
        )
        y += LINE
        at += {"command": PAUSE_COMMAND, "note": PAUSE_NOTE}.get(kind, PAUSE_LINE)
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    arguments = sys.argv[1:]
    lines = record(str(Path(arguments[-1]).resolve()))
    if "--transcript" in arguments:
        print("\n".join(spoken(kind, without_numbers(text)) for kind, text in lines))
    else:
        sys.stdout.write(draw(lines))


main()
