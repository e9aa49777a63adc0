#!/usr/bin/env python3
"""Checks that documents and help texts use none of the retired words and phrases.

  check_words.py [--root PROJECT]

It reads the Markdown files of the project, the public C header, the Python package and the golden
texts of the tests, and the messages in the sources: their string literals that hold a space.
docs/glossary.md is left out, because it says which words are retired. CHANGELOG.md is left out,
because it quotes what was.

Prints one line a finding with what to write instead, and exits with 1 if there is any.
"""

import argparse
import pathlib
import re
import sys

# Pattern, and what to write instead.
RETIRED = [
    (r"of late", "recently"),
    (r"its like|their like", "similar ones"),
    (r"(?:go|goes|going|went|gone) on(?! the\b| a\b)", "continue"),
    (r"brain", "controller, state machine"),
    (r"nobody in particular", "unknown"),
    (r"(?:is|are|be) had", "is available"),
    (r"for ever", "never changes"),
    (r"hand (?:it|them|a job) (?:to|a)", "submit"),
    (r"(?:on|in) purpose", "inject"),
    (r"what tells", "compare"),
    (r"shows? to everybody|shown to everybody", "every user can read"),
    (r"is told (?:that|to|of|again)|are told (?:that|to|of|again)", "receives, is reported"),
    (r"doors?", "worker API"),
    (r"vaults?", "snapshot keeper"),
    (r"warm parents?", "fork server"),
    (r"poison(?:ed|s)?", "non-finite"),
    (r"cards?", "GPU, accelerator"),
    (r"notices?", "notification"),
    (r"retreat(?:s|ed|ing)?", "vacate"),
    (r"behind the run", "asynchronously"),
    (r"(?:in|on|of) the books", "the scheduler's state"),
    (r"crews?", "worker pool"),
]
LEFT_OUT = {"docs/glossary.md", "CHANGELOG.md"}


def read_files(root):
    for pattern in ("*.md", "docs/*.md", "docs/*.yaml", "src/**/README.md", "bench/*.md",
                    "python/*.md", "include/*.h", "python/longhaul/*.py", "tests/golden/**/*.txt",
                    "src/**/*.cc"):
        yield from sorted(path for path in root.glob(pattern)
                          if not path.name.endswith(("_test.cc", "_fuzz.cc", "_bench.cc")))


def messages(text):
    """The text of a C++ source with all but its string literals that hold a space blanked out."""
    kept = []
    for line in text.split("\n"):
        strings = re.findall(r'"((?:[^"\\]|\\.)*)"', line.split("//")[0])
        kept.append(" ; ".join(text for text in strings if " " in text))
    return "\n".join(kept)


def findings(text):
    """Line, phrase and remedy of each retired phrase; a phrase may be broken over two lines."""
    for pattern, instead in RETIRED:
        loose = pattern.replace(" ", r"\s+")
        for match in re.finditer(rf"\b(?:{loose})(?!\w)", text, re.IGNORECASE):
            line = text.count("\n", 0, match.start()) + 1
            yield line, " ".join(match.group().split()), instead


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args(arguments).root
    count = 0
    for path in read_files(root):
        place = str(path.relative_to(root))
        if place in LEFT_OUT:
            continue
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".cc":
            text = messages(text)
        for line, phrase, instead in sorted(findings(text)):
            print(f"{place}:{line}: '{phrase}': write '{instead}' or similar")
            count += 1
    print(f"{count} findings")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
