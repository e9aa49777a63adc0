#!/usr/bin/env python3
"""Checks that every path and every link in documents and comments leads somewhere.

  check_paths.py [--root PROJECT]

Read are the Markdown files whole, the comments of C++, C, Python, shell, CMake, YAML and protobuf
files, and messages of C++ that name a document. Checked are

- links of Markdown: the file must exist, and a heading for its #anchor;
- paths of files, such as spec/cluster/device.h, and names of files alone, such as device.h;
- paths of folders that begin with a folder of the project or of src/, such as runtime/scheduling.

A path may be meant from the project's folder, from src/, from the file's own folder or from one
above it. `*` stands for anything in a name, {h,cc} for alternatives. Links to the web are not
followed. What stands for a file of another project or of a run's output is listed in OUTSIDE.

Prints one line a finding and exits with 1 if there is any.
"""

import argparse
import fnmatch
import pathlib
import re
import subprocess
import sys
import tokenize

# A path with one of these endings is a file of this project, unless OUTSIDE has it.
SOURCE_SUFFIXES = ("h", "cc", "c", "py", "md", "proto", "cmake", "bash", "supp")

# Patterns of paths that lead to no file of this project, and why.
OUTSIDE = (
    # Made by a build, a run or a user.
    "*.pb.h", "*report.md", "train.py", "runs/*",
    # Cited sources of other projects.
    "*splitmix64.c", "xoshiro256starstar.c",
    "docs/_pages/config-json.md", "deepspeed/*", "megatron/*", "torchtitan/*",
    "pretrain_gpt.py", "arguments.py", "transformer_config.py", "megatron_base_model.py",
    "distributed/parallel_dims.py", "src/transformers/*", "src/graph/tuning.cc",
    "hta/*", "communication_analysis.py", "cuda_kernel_analysis.py", "trace_counters.py",
    "utils/utils.py",
    # Headers of CUDA and NCCL.
    "cuda.h", "cuda_runtime_api.h", "driver_types.h", "library_types.h", "cublas_api.h",
    "cublasLt.h", "nccl.h",
    # Examples of what the checks of tools/ look for.
    "module/file.h", "a.{h,cc}", "a.h", "a.cc",
)
PLACEHOLDER = re.compile(r"\b[A-Z][A-Z_]+\b(?=/)")  # src/ROOM/README.md stands for each of them

NAME = r"[\w*{},+-][\w.*{},+-]*"
PATH = re.compile(rf"(?<![\w/.$<>~:-])(?:\.\.?/)*{NAME}(?:/{NAME})*/?")
LINK = re.compile(r"\]\(([^)\s]+)\)")
URL = re.compile(r"[a-z][a-z0-9]*://[^\s)>`]+")
INCLUDED = re.compile(r"<[\w/.+-]+>")


class Tree:
    """The files and folders of the project."""

    def __init__(self, root, files):
        self.root = root
        self.files = set(files)
        self.names = {pathlib.PurePosixPath(file).name for file in files}
        self.folders = set()
        for file in files:
            self.folders.update(str(folder) for folder in pathlib.PurePosixPath(file).parents)
        self.top = {folder for folder in self.folders if "/" not in folder and folder != "."}
        self.top |= {folder[4:] for folder in self.folders
                     if folder.startswith("src/") and folder.count("/") == 1}
        self.everything = sorted(self.files | self.folders)

    def has(self, path, place):
        """Whether `path`, read in a file of the folder `place`, leads to something."""
        return any(self.has_one(each, place) for each in alternatives(path))

    def has_one(self, path, place):
        for base in bases(place):
            whole = normal(base + "/" + path)
            if whole is None:
                continue
            if whole in self.files or whole in self.folders:
                return True
            if "*" in whole and any(fnmatch.fnmatchcase(each, whole) for each in self.everything):
                return True
        return False

    def has_name(self, name):
        for each in alternatives(name):
            if each in self.names:
                return True
            if "*" in each and any(fnmatch.fnmatchcase(known, each) for known in self.names):
                return True
        return False


def alternatives(path):
    """a.{h,cc} as a.h and a.cc."""
    match = re.search(r"\{([^{}]*)\}", path)
    if not match:
        return [path]
    return [each for choice in match.group(1).split(",")
            for each in alternatives(path[:match.start()] + choice + path[match.end():])]


def bases(place):
    """The folders that a path may be meant from: the file's own, those above it, and src/."""
    own = pathlib.PurePosixPath(place)
    return [str(own), *(str(above) for above in own.parents), "src"]


def normal(path):
    parts = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == "..":
            if not parts:
                return None
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts) or "."


def comments(path, text):
    """The lines of `text` that a person reads: pairs of a line's number and its words."""
    suffix = path.suffix
    if suffix == ".md":
        return list(enumerate(text.splitlines(), 1))
    if suffix in (".cc", ".h", ".c", ".proto"):
        return slash_comments(text)
    if suffix == ".py":
        return python_comments(text)
    return [(number, line[line.index("#") + 1:])
            for number, line in enumerate(text.splitlines(), 1)
            if re.match(r"\s*#(?!!)|.*\s#\s", line)]


def slash_comments(text):
    token = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
                       r"|//[^\n]*|/\*.*?\*/", re.DOTALL)
    found = []
    for match in token.finditer(text):
        if not match.group().startswith("/") and "docs/" not in match.group():
            continue  # a message may send its reader to a document; other texts are data
        first = text.count("\n", 0, match.start()) + 1
        found += [(first + i, line) for i, line in
                  enumerate(match.group().lstrip("/").splitlines())]
    return found


def python_comments(text):
    found = []
    lines = iter(text.splitlines(True))
    at_begin = True
    for token in tokenize.generate_tokens(lambda: next(lines, "")):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            found.append((token.start[0], token.string[1:]))
        elif token.type == tokenize.STRING and at_begin:  # a docstring
            found += [(token.start[0] + i, line)
                      for i, line in enumerate(token.string.splitlines())]
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            at_begin = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return found


def anchors(text):
    """The #anchors of a Markdown file's headings, as GitHub makes them."""
    found = set()
    for heading in re.findall(r"^#+ +(.*)$", text, re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", heading.strip().lower())
        found.add(words.replace(" ", "-"))
    return found


class Checker:
    def __init__(self, root, files=None):
        self.root = root
        self.tree = Tree(root, files if files is not None else tracked(root))
        self.findings = []
        self.checked = 0

    def run(self):
        for file in sorted(self.tree.files):
            path = pathlib.PurePosixPath(file)
            if not is_read(path) or not (self.root / file).is_file():
                continue
            text = (self.root / file).read_text(encoding="utf-8")
            for number, line in comments(path, text):
                self.check_line(path, number, line)
        return self.findings

    def check_line(self, path, number, line):
        if path.suffix == ".md":
            for target in LINK.findall(line):
                self.check_link(path, number, target)
            line = LINK.sub(" ", line)
        line = INCLUDED.sub(" ", URL.sub(" ", line))
        for match in PATH.finditer(line):
            self.check_path(path, number, match.group().rstrip(".,/:*") or match.group())

    def find(self, path, number, text):
        self.findings.append(f"{path}:{number}: {text}")

    def check_link(self, path, number, target):
        if URL.match(target) or target.startswith("mailto:"):
            return
        self.checked += 1
        file, _, anchor = target.partition("#")
        whole = normal(f"{path.parent}/{file}") if file else str(path)
        if whole not in self.tree.files and whole not in self.tree.folders:
            self.find(path, number, f"the link to {target} leads to no file")
        elif anchor and anchor not in anchors((self.root / whole).read_text(encoding="utf-8")):
            self.find(path, number, f"the link to {target}: {whole} has no such heading")

    def check_path(self, path, number, candidate):
        if any(fnmatch.fnmatchcase(candidate, pattern) for pattern in OUTSIDE):
            return
        candidate = PLACEHOLDER.sub("*", candidate)
        suffixes = {each.rpartition(".")[2] for each in alternatives(candidate) if "." in each}
        file = bool(suffixes & set(SOURCE_SUFFIXES))
        if "/" in candidate:
            if file or candidate.split("/")[0] in self.tree.top:
                self.checked += 1
                if not self.tree.has(candidate, str(path.parent)):
                    self.find(path, number, f"{candidate} leads to no file or folder")
        elif file and not candidate.startswith("."):
            self.checked += 1
            if not self.tree.has_name(candidate):
                self.find(path, number, f"no file is called {candidate}")


def is_read(path):
    if "testdata" in path.parts or path.name == "CHANGELOG.md":
        return False
    return path.suffix in (".md", ".cc", ".h", ".c", ".proto", ".py", ".cmake", ".bash", ".yaml",
                           ".yml", ".sh") or path.name in ("CMakeLists.txt", "packages.txt",
                                                           "longhaul", "test", "format", "run")


def tracked(root):
    """The project's files: those that git knows, or, in a copy without git, all but build's."""
    if (root / ".git").exists():
        command = ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"]
        return subprocess.run(command, check=True, capture_output=True,
                              text=True).stdout.splitlines()
    files = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return [str(path) for path in files if path.parts[0] not in ("build", "runs")]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    checker = Checker(parser.parse_args(arguments).root)
    for finding in checker.run():
        print(finding)
    print(f"{len(checker.findings)} findings in {checker.checked} paths and links")
    return 1 if checker.findings else 0


if __name__ == "__main__":
    sys.exit(main())
