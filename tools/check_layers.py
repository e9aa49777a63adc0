#!/usr/bin/env python3
"""Holds every #include against the layers, and the tree against its house rules.

  check_layers.py --build BUILD_FOLDER [--root PROJECT]

A module is a folder of src/. CMake writes the layers (their order and each module's DEPENDS) to
layers.txt, and the DEPENDS of tests, fuzzers and benchmarks to tests.txt, both in the build folder.
Checked:

- a file includes only from its own module and from declared, lower modules; a test only from what
  it lists;
- own files are included as "module/file.h", which must exist; internal/ is closed to other
  modules;
- a header of src/ has `#pragma once` before its first #include;
- files have at most 800 lines, lines at most 100 columns, folders at most 40 files;
- each module has a README.md of at most 60 lines; nothing is called utils, common, misc or helpers.

Prints one line a finding and exits with 1 if there is any.
"""

import argparse
import pathlib
import re
import sys

MAX_LINES = 800
MAX_COLUMNS = 100
MAX_README_LINES = 60
MAX_FILES = 40
CHECKED_FOLDERS = ["src", "include", "tools", "cmake", "bench"]
CHECKED_SUFFIXES = {".cc", ".h", ".c", ".py", ".proto", ".cmake", ".txt", ".sh"}
FORBIDDEN_NAMES = {"utils", "util", "common", "misc", "helpers", "helper"}
OUTSIDE_OF_MODULES = {"longhaul.h"}  # include/: the public header
TEST_HEADERS = ("gtest/", "gmock/", "benchmark/")

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


class Layers:
    """The modules, their order, and what each and each test declares."""

    def __init__(self, layers_text, tests_text):
        self.order = []
        self.libraries = {}  # library -> module
        self.depends = {}  # module -> set of modules
        self.tests = {}  # source below src -> set of modules
        declared = []
        for line in layers_text.splitlines():
            head, _, tail = line.partition(":")
            if head == "order":
                self.order = tail.split()
                continue
            module, library = head.split()
            self.libraries[library] = module
            declared.append((module, tail.split()))
        for module, libraries in declared:
            modules = {self.libraries.get(name, name) for name in libraries}
            self.depends.setdefault(module, set()).update(modules - {module})
        for line in tests_text.splitlines():
            source, _, tail = line.partition(":")
            modules = {self.libraries.get(name, name) for name in tail.split()}
            self.tests.setdefault(source, set()).update(modules)

    def height(self, module):
        return self.order.index(module)


class Checker:
    def __init__(self, root, layers):
        self.root = root
        self.src = root / "src"
        self.layers = layers
        self.findings = []
        self.files = 0
        self.includes = 0

    def find(self, path, line, text):
        place = path.relative_to(self.root)
        self.findings.append(f"{place}:{line}: {text}" if line else f"{place}: {text}")

    def run(self):
        for module, depends in sorted(self.layers.depends.items()):
            self.check_declaration(module, depends)
        for name in CHECKED_FOLDERS:
            folder = self.root / name
            if folder.is_dir():
                self.check_folder(folder)
        for module in sorted(path for path in self.src.iterdir() if path.is_dir()):
            if any(module.iterdir()):
                self.check_module(module)
        return self.findings

    def check_declaration(self, module, depends):
        place = self.src / module / "CMakeLists.txt"
        if module not in self.layers.order:
            self.find(place, 0,
                      f"module '{module}' is not in the list of layers in src/CMakeLists.txt")
            return
        for other in sorted(depends):
            if other not in self.layers.order:
                self.find(place, 0, f"DEPENDS names '{other}', which is no module")
            elif self.layers.height(other) > self.layers.height(module):
                self.find(place, 0, f"module '{module}' depends on '{other}', which lies above it")

    def check_module(self, module):
        readme = module / "README.md"
        if not readme.is_file():
            self.find(module, 0, "the module has no README.md")
        elif len(readme.read_text().splitlines()) > MAX_README_LINES:
            self.find(readme, 0, f"is longer than {MAX_README_LINES} lines")

    def check_folder(self, folder):
        entries = sorted(folder.iterdir())
        if folder.name in FORBIDDEN_NAMES:
            self.find(folder, 0, f"no folder is called '{folder.name}': name what is in it")
        if folder.name in ("testdata", "__pycache__"):
            return
        files = [path for path in entries if path.is_file()]
        if len(files) > MAX_FILES:
            self.find(folder, 0, f"holds {len(files)} files, more than {MAX_FILES}")
        for path in entries:
            if path.is_dir():
                self.check_folder(path)
            elif path.suffix in CHECKED_SUFFIXES:
                self.check_file(path)

    def check_file(self, path):
        self.files += 1
        if path.stem in FORBIDDEN_NAMES:
            self.find(path, 0, f"no file is called '{path.stem}': name what is in it")
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) > MAX_LINES:
            self.find(path, 0, f"has {len(lines)} lines, more than {MAX_LINES}: split by concept")
        in_src = self.src in path.parents
        if in_src and path.suffix == ".h" and not self.has_guard(lines):
            self.find(path, 0, "has no '#pragma once' before its first #include")
        for number, line in enumerate(lines, 1):
            if len(line) > MAX_COLUMNS:
                self.find(path, number, f"has {len(line)} columns, more than {MAX_COLUMNS}")
            match = INCLUDE.match(line) if path.suffix in (".cc", ".h", ".c") else None
            if match and in_src:
                self.includes += 1
                self.check_include(path, number, match.group(1), match.group(2))

    @staticmethod
    def has_guard(lines):
        """Whether the header is skipped when it is included a second time."""
        directives = [line.strip() for line in lines if line.startswith("#")]
        return bool(directives) and directives[0] == "#pragma once"

    def check_include(self, path, line, quote, target):
        parts = target.split("/")
        own = parts[0] in self.layers.order and len(parts) > 1
        source = path.relative_to(self.src)
        if quote == "<":
            if own and (self.src / target).is_file():
                self.find(path, line, f'<{target}> is ours: write "{target}"')
            elif target.startswith(TEST_HEADERS) and not self.is_test(source):
                self.find(path, line, f"<{target}> outside a test")
            return
        if target in OUTSIDE_OF_MODULES:
            return
        if not own:
            self.find(path, line, f'"{target}" does not begin with a module: '
                      "write \"module/file.h\", or <...> for a file from outside")
            return
        generated = parts[0] == "proto" and target.endswith(".pb.h")
        if not generated and not (self.src / target).is_file():
            self.find(path, line, f'"{target}" does not exist below src')
            return
        self.check_layer(path, line, source, target)

    def is_test(self, source):
        """A listed source, or a header whose name says that only tests include it."""
        named_so = source.stem.endswith(("_test", "_testing", "_fixture"))
        return named_so or str(source) in self.layers.tests

    def check_layer(self, path, line, source, target):
        module, other = source.parts[0], target.split("/")[0]
        if module == other:
            return
        if "internal" in target.split("/")[1:-1]:
            self.find(path, line, f'"{target}" is internal to module \'{other}\'')
        if module not in self.layers.order:
            self.find(path, line, f"module '{module}' is not in the list of layers")
            return
        if self.layers.height(other) > self.layers.height(module):
            self.find(path, line, f"module '{module}' includes \"{target}\" from '{other}', "
                      "which lies above it")
            return
        if module not in self.layers.depends:
            return  # not built in this configuration
        test = self.layers.tests.get(str(source))
        declared = test if test is not None else self.layers.depends[module]
        if other not in declared:
            who = "the test" if test is not None else f"module '{module}'"
            self.find(path, line, f"{who} includes \"{target}\" but its DEPENDS lack '{other}'")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    options = parser.parse_args(arguments)
    layers = Layers((options.build / "layers.txt").read_text(),
                    (options.build / "tests.txt").read_text())
    checker = Checker(options.root, layers)
    for finding in checker.run():
        print(finding)
    print(f"{len(checker.findings)} findings in {checker.files} files and "
          f"{checker.includes} includes of {len(layers.depends)} modules")
    return 1 if checker.findings else 0


if __name__ == "__main__":
    sys.exit(main())
