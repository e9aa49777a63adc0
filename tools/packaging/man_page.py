#!/usr/bin/env python3
"""Write the manual page longhaul(1) from the help texts of all commands.

  tools/packaging/man_page.py PROGRAM OUTPUT

The help texts are those that `PROGRAM --help`, `PROGRAM COMMAND --help` and so on print.

example:
  tools/packaging/man_page.py build/release/src/bin/longhaul longhaul.1
"""

import pathlib
import re
import subprocess
import sys


def help_of(program, words):
    """The help text of a command."""
    done = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True,
                          env={"PATH": "/usr/bin:/bin", "COLUMNS": "80"})
    return done.stdout


def subcommands(text):
    """The names of the commands that a help text lists, below headings of their own."""
    if "SUBCOMMAND" not in text.split("Usage:", 1)[1].split("\n", 1)[0]:
        return []
    found, heading = [], ""
    for line in text.splitlines():
        if re.match(r"\S.*:$", line):
            heading = line
        elif heading not in ("Options:", "Examples:"):
            found += re.findall(r"^  ([a-z][\w-]*)  ", line)
    return found


def escaped(text):
    """The text as roff shows it unchanged."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(['.])", r"\\&\1", text, flags=re.MULTILINE)


def without_examples(text, whole):
    """The text without the examples at its end, if they are those of the whole program."""
    mark = "\nExamples:"
    examples = whole[whole.find(mark):]
    return text[:-len(examples)] if mark in whole and text.endswith(examples) else text


def sections(program, whole, words=()):
    """The roff of a command and of the commands below it; `whole` is the program's help text."""
    text = help_of(program, words) if words else whole
    title = f"longhaul {' '.join(words)}".upper() if words else "DESCRIPTION"
    shown = without_examples(text, whole) if words else text
    made = [f".SH {escaped(title)}", ".nf", escaped(shown.rstrip()), ".fi"]
    for name in subcommands(text):
        made += sections(program, whole, (*words, name))
    return made


def page(program):
    """The whole manual page."""
    version = subprocess.run([program, "--version"], capture_output=True, text=True,
                             check=True).stdout.split()[1]
    return "\n".join([
        f'.TH LONGHAUL 1 "" "Longhaul {version}" "User Commands"', ".SH NAME",
        "longhaul \\- plan, schedule and run large\\-model training jobs", ".SH SYNOPSIS",
        ".B longhaul", ".I COMMAND", "[OPTIONS]", *sections(program, help_of(program, ()))]) + "\n"


def main():
    if len(sys.argv) != 3 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if "--help" in sys.argv or "-h" in sys.argv else 2
    pathlib.Path(sys.argv[2]).write_text(page(sys.argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
