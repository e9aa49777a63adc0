#!/usr/bin/env python3
"""Holds every class of src/ to two source files and 800 lines of bodies.

  check_classes.py [--root PROJECT] [--show N]

Counts the members that are defined outside of their class: in how many .cc files they are, and how
many lines their definitions have. Relies on the layout of clang-format: a definition begins in the
first column and ends with a line that begins with "}". Tests are not counted.

Prints the N widest classes, then one line a finding, and exits with 1 if there is any. A class that
is over a limit already is in KNOWN with its present numbers: it may shrink, but not grow, and once
it is within the limits its entry is a finding too.
"""

import argparse
import collections
import pathlib
import re
import sys

MAX_FILES = 2
MAX_LINES = 800
# Class -> its number of files and of lines, both at most.
KNOWN = {}

NAMESPACE = re.compile(r"^namespace ([\w:]+) \{")
MEMBER = re.compile(r"((?:\w+::)+)(?:~?\w+|operator[^\s(]+)\s*\(")


class Width:
    """What the members of one class take up."""

    def __init__(self):
        self.files = set()
        self.lines = 0


def definitions(text):
    """Yields the class with its namespace, and the number of lines, of each member definition."""
    namespace = ""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        line = lines[number]
        match = NAMESPACE.match(line)
        if match:
            namespace = match.group(1)
        if not line[:1].isalpha() or match or line.startswith(("using ", "class ", "struct ")):
            number += 1
            continue
        begin = number
        signature = line
        while not re.search(r"[{;]\s*(//.*)?$", lines[number]) and "{" not in lines[number]:
            number += 1
            if number == len(lines):
                return
            signature += " " + lines[number].strip()
        member = MEMBER.search(signature.split("{")[0])
        is_definition = "{" in signature
        one_line = is_definition and signature.count("{") == signature.count("}")
        if is_definition and not one_line:
            while number < len(lines) - 1 and not lines[number].startswith("}"):
                number += 1
        number += 1
        if member and is_definition:
            yield namespace + "::" + member.group(1)[:-2], number - begin


def widths(root):
    """The width of each class below root/src, by name."""
    found = collections.defaultdict(Width)
    for path in sorted((root / "src").rglob("*.cc")):
        if path.stem.endswith(("_test", "_fuzz", "_bench")):
            continue
        for name, lines in definitions(path.read_text(encoding="utf-8")):
            found[name].files.add(path)
            found[name].lines += lines
    return found


def findings(found, known):
    """What is over a limit and not known, or known and within them."""
    result = []
    for name, width in sorted(found.items()):
        files, lines = known.get(name, (MAX_FILES, MAX_LINES))
        if len(width.files) > files:
            result.append(f"{name} has members in {len(width.files)} files, more than {files}: "
                          "split it into classes")
        if width.lines > lines:
            result.append(f"{name} has {width.lines} lines of members, more than {lines}: "
                          "split it into classes")
    for name in sorted(known):
        width = found.get(name, Width())
        if len(width.files) <= MAX_FILES and width.lines <= MAX_LINES:
            result.append(f"{name} is within the limits: remove its entry from KNOWN")
        elif len(width.files) < known[name][0]:
            result.append(f"{name} has members in {len(width.files)} files: "
                          "lower its entry in KNOWN")
    return result


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--show", type=int, default=10, help="print the N widest classes")
    options = parser.parse_args(arguments)
    found = widths(options.root)
    widest = sorted(found.items(), key=lambda item: (-len(item[1].files), -item[1].lines, item[0]))
    for name, width in widest[:options.show]:
        print(f"{len(width.files):3} files {width.lines:5} lines  {name}")
    wrong = findings(found, KNOWN)
    for finding in wrong:
        print(finding)
    print(f"{len(wrong)} findings in {len(found)} classes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
