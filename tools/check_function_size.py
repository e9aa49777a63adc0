#!/usr/bin/env python3
"""Checks that no function of C++ or C has more lines than the style allows.

  check_function_size.py [--root PROJECT] [--longest N]

What readability-function-size of clang-tidy would report, without compiling: a function is a block
in braces behind parameters, outside of another function; its lines are those from the opening brace
to the closing one. Lambdas count as lines of the function around them. A TEST is no function here:
the long ones are tables of cases.

Prints one line a finding and exits with 1 if there is any. --longest lists the N longest instead.
"""

import argparse
import pathlib
import re
import sys

MAX_LINES = 70
CHECKED_FOLDERS = ["src", "include", "tools"]
CHECKED_SUFFIXES = {".cc", ".h", ".c"}

NOT_CODE = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
                      r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"
                      r"|//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
                      re.DOTALL | re.MULTILINE)
# What stands before a block that holds declarations, not statements.
SCOPE = re.compile(r"^(?:template\s*<.*>\s*)?"
                   r"(?:(?:inline|typedef|static|constexpr|const)\s+)*"
                   r"(?:namespace|class|struct|union|enum|extern)\b", re.DOTALL)
NAME = re.compile(r"((?:[\w~]+::)*(?:operator\s*[^\s\w(]+|operator\s*\(\)|[~\w]+))\s*\(")


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def head_of(code, begin):
    """The text between the brace at `begin` and the end of the statement or block before it."""
    depth = 0
    for i in range(begin - 1, -1, -1):
        if code[i] == ")":
            depth += 1
        elif code[i] == "(":
            depth -= 1
        elif depth == 0 and code[i] in ";{}":
            return code[i + 1:begin].strip()
    return code[:begin].strip()


def closing(code, begin):
    """The place of the brace that closes the one at `begin`."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, begin):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.start()
    return len(code) - 1


def functions(text):
    """Name, first line and number of lines of each function."""
    code = NOT_CODE.sub(blank, text)
    found = []
    at = 0
    while True:
        at = code.find("{", at)
        if at < 0:
            return found
        head = re.sub(r"^(?:public|private|protected):\s*", "", head_of(code, at))
        name = NAME.search(head)
        if SCOPE.match(head) and not (head.startswith("extern") and name):
            at += 1  # look into it
            continue
        end = closing(code, at)
        if name and "=" not in head[:name.start()] and not name.group(1).startswith("TEST"):
            found.append((name.group(1), text.count("\n", 0, at) + 1, code.count("\n", at, end)))
        at = end + 1


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--longest", type=int, default=0, metavar="N")
    options = parser.parse_args(arguments)
    count = 0
    sizes = []
    for folder in CHECKED_FOLDERS:
        for path in sorted((options.root / folder).rglob("*")):
            if path.suffix in CHECKED_SUFFIXES and "testdata" not in path.parts:
                place = str(path.relative_to(options.root))
                for name, line, lines in functions(path.read_text(encoding="utf-8")):
                    count += 1
                    sizes.append((lines, place, line, name))
    sizes.sort(reverse=True)
    findings = [size for size in sizes
                if size[0] > MAX_LINES]
    for lines, place, line, name in sizes[:options.longest] or findings:
        print(f"{place}:{line}: {name} has {lines} lines, at most {MAX_LINES} are allowed")
    print(f"{len(findings)} findings in {count} functions")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
