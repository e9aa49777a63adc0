#!/usr/bin/env python3
"""Whether the conformance run notices known mistakes of parallel training.

  mutation_test.py BUILD_FOLDER [--all | --only NUMBER[,NUMBER...]]

Each patch of mutations/ puts one mistake into a copy of src/training, most of them published ones of
other trainers. The copy is compiled with the commands of the build folder, and longhaul-conformance
of it must report a layout that differs: a crash or a layout that hangs does not count. Without a
flag all patches are applied, and those of SAMPLE are compiled too. With --all each takes about 15 s.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PATCHES = sorted((pathlib.Path(__file__).resolve().parent / "mutations").glob("*.patch"))
SAMPLE = (20, 24)  # of parameters.cc, which is compiled without libtorch
RUN = ["--type", "f64", "--steps", "2", "--layouts", "24", "--stop-at-first"]


def copy_with(patch, folder):
    shutil.copytree(ROOT / "src/training", folder / "src/training")
    done = subprocess.run(["patch", "--strip=1", "--forward", "--fuzz=0", "--input", patch],
                          cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{patch.name} does not apply; make it anew for the changed source:\n{done.stdout}")


class Build:
    """The commands that build longhaul-conformance, for a changed copy of the module."""

    def __init__(self, folder):
        self.folder = folder
        listed = subprocess.run(["ninja", "-C", folder, "-t", "commands", "longhaul-conformance"],
                                capture_output=True, text=True, check=True).stdout.splitlines()
        self.compiles = [line for line in listed if re.search(r" -o src/training/\S+\.o -c ", line)]
        self.link = listed[-1]
        if not self.compiles or "-o src/bin/longhaul-conformance" not in self.link:
            sys.exit(f"{folder}: no commands for longhaul-conformance: configure it first")

    def run(self, tree, changed):
        """Compiles anew what contains a source of `changed`, or all for a header; runs the program."""
        everything = any(path.endswith(".h") for path in changed)
        objects = []
        for line in self.compiles:
            output, source = re.search(r" -o (\S+\.o) -c (\S+)", line).groups()
            text = pathlib.Path(source).read_text()
            if not everything and source not in (str(ROOT / path) for path in changed) and not any(
                    f'#include "{path.removeprefix("src/")}"' in text for path in changed):
                objects.append(self.folder / output)
                continue
            objects.append(tree / output.replace("/", "_"))
            command = line.replace(f" -o {output} -c ", f" -o {objects[-1]} -c ", 1)
            # Sources and headers of the copy come first.
            command = command.replace(f"-I{ROOT}/src", f"-I{tree}/src -I{ROOT}/src", 1)
            command = command.replace(f" -c {ROOT}/src/training/", f" -c {tree}/src/training/")
            command = re.sub(r" -MF \S+", f" -MF {objects[-1]}.d", command).replace(" -O1 ", " -O0 ")
            self.call(command)
        if not any(tree in each.parents for each in objects):
            sys.exit(f"no command compiles {changed}")
        program = tree / "longhaul-conformance"
        line = self.link.replace("-o src/bin/longhaul-conformance", f"-o {program}", 1)
        line = re.sub(r"src/training/\S+\.(o|a)\b", "", line)
        line = line.replace(f" -o {program}", " " + " ".join(map(str, objects)) + f" -o {program}")
        self.call(line)
        return subprocess.run([program, *RUN], capture_output=True, text=True, check=False,
                              timeout=600)

    def call(self, command):
        done = subprocess.run(command, shell=True, cwd=self.folder, capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            sys.exit(f"{command}\n{done.stderr}")


def read(patch):
    found = re.match(r"Mistake: (.+)\.\nSource: (.+)\n", patch.read_text())
    if not found:
        sys.exit(f"{patch.name} does not begin with the lines 'Mistake: ...' and 'Source: ...'")
    return found.groups()


def is_noticed(build, patch):
    """Builds the copy and runs it. Prints what the run said."""
    tree = build.folder / "mutation"  # always the same, for compiler caches
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    copy_with(patch, tree)
    done = build.run(tree, re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(), re.MULTILINE))
    shutil.rmtree(tree)
    found = re.search(r"^DIFFERENT (.+)\n  (.+)", done.stdout, re.MULTILINE)
    # A crash or a rank that waits is no comparison.
    noticed = done.returncode == 1 and found and ": expected " in found.group(2)
    said = "; ".join(found.groups()) if found else (done.stdout + done.stderr)[-500:]
    print(f"{'noticed' if noticed else 'EQUAL' if done.returncode == 0 else 'FAILED'}  {patch.stem}: {said}",
          flush=True)
    return noticed


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--all", action="store_true", help="compile and run every patch")
    parser.add_argument("--only", help="compile and run these, by their numbers")
    options = parser.parse_args()
    sources = [read(patch)[1] for patch in PATCHES]
    numbers = [int(patch.name.split("_")[0]) for patch in PATCHES]
    if numbers != list(range(1, len(PATCHES) + 1)):
        sys.exit(f"the numbers of the patches are not 1 to {len(PATCHES)}: {numbers}")
    for patch in PATCHES:
        with tempfile.TemporaryDirectory() as folder:
            copy_with(patch, pathlib.Path(folder))
    published = sum(source.startswith("https://") for source in sources)
    print(f"{len(PATCHES)} patches apply, {published} of them re-create published mistakes",
          flush=True)
    chosen = SAMPLE
    if options.all:
        chosen = numbers
    if options.only:
        chosen = [int(number) for number in options.only.split(",")]
    build = Build(options.build.resolve())
    missed = [number for number in chosen if not is_noticed(build, PATCHES[number - 1])]
    print(f"{len(chosen) - len(missed)} of {len(chosen)} mistakes noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
