"""What the program prints for help and for wrong use, compared with golden files.

usage: golden_test.py LONGHAUL [--update]

A difference is printed as a diff. --update writes what the program prints into the golden files:
read their diff before you commit it.
"""
import difflib
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"

# Commands whose help has a file of its own: what `longhaul --help` lists, and their subcommands.
COMMANDS = ["", "run", "explain", "plan", "submit", "status", "jobs", "jobs expedite", "jobs evict", "jobs scale",
            "jobs release", "jobs change", "stop", "nodes", "nodes cordon", "nodes drain",
            "nodes uncordon", "nodes revoke", "nodes trust-links", "queues", "queues limit",
            "check", "reserve", "usage", "what-if", "apply", "token",
            "token create", "token create-join", "token list", "token revoke", "page", "top", "events",
            "logs",
            "controller", "controller init", "agent", "kube", "kube schedule", "kube operate",
            "kube node-health", "kube install", "kube uninstall", "kube import", "slurm",
            "slurm submit", "slurm status", "slurm resize", "slurm cancel", "profile", "simulate",
            "calibrate", "pipeline", "pipeline make", "pipeline check", "checkpoint", "checkpoint ls", "checkpoint show", "checkpoint verify", "checkpoint diff", "checkpoint convert",
            "checkpoint prune", "checkpoint plan"]

# Wrong use, in a folder that holds only the files of FILES. None of it starts a process.
FILES = {
    "good.yaml": "name: a\ncommand: [\"true\"]\n",
    "typo.yaml": "name: a\ndata: {include: ['*.h']}\ntrain: {stpes: 3, global_batch: 0}\n",
    "jobs.yaml": "jobs:\n- {name: a, command: ['true'], after: [b]}\n"
                 "- {name: b, command: ['true']}\n",
    "array.yaml": "name: a\ncommand: ['true']\narray: {count: 3}\n",
    "recipe.yaml": "framework: megatorn\nscript: p.py\n",
    "empty.yaml": "",
    "list.yaml": "- 1\n",
    "trace.json": "{}\n",
    "failures.csv": "t,cause,node,scope,silent,notice_s,repair_s\n60,fan,0,node,0,0,60\n",
}
WRONG = [
    "",
    "trian",
    "run",
    "run missing.yaml",
    "run .",
    "run typo.yaml",
    "run empty.yaml",
    "run list.yaml",
    "run jobs.yaml",
    "run array.yaml",
    "run good.yaml --set steps",
    "run recipe.yaml",
    "run good.yaml --framework megatron",
    "run --framework pytorch -- ./train.sh",
    "run good.yaml --inject 'kill worker'",
    "explain",
    "explain missing",
    "explain .",
    "plan",
    "plan no-model h100-sxm:8",
    "plan gpt2 no-device:8",
    "plan gpt2 h100-sxm:0",
    "plan gpt2 h100-sxm:8 --fix tensor=zero",
    "plan gpt2 h100-sxm:8 --tokens many",
    "plan --stack nothing",
    "submit",
    "submit typo.yaml",
    "status",
    "status --why",
    "status --controller nonsense",
    "agent --node a",
    "controller --state-dir . --config missing.yaml",
    "profile",
    "profile missing",
    "profile trace.json",
    "pipeline make 1f1b --chunks 2",
    "pipeline make interleaved --ranks 4 --micro-batches 6 --chunks 2",
    "pipeline make search --activations 1 --chunks 2",
    "pipeline make search --forward 1,2",
    "pipeline check missing.txt",
    "simulate --nodes 1",
    "simulate --replay missing.csv",
    "simulate --replay failures.csv",
    "simulate --replay llama3 --steps 5",
    "simulate --write-trace failures.csv",
    "checkpoint",
    "checkpoint ls missing",
    "checkpoint show missing.safetensors",
    "checkpoint diff missing",
    "checkpoint convert missing model.pt",
    "checkpoint prune missing --keep 0",
]


class GoldenTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name, text in FILES.items():
            (pathlib.Path(self.folder) / name).write_text(text)

    def run_program(self, words):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("LONGHAUL", "AWS"))}
        environment |= {"HOME": self.folder, "COLUMNS": "100"}
        return subprocess.run([sys.program, *words], cwd=self.folder, env=environment, timeout=30,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def check(self, name, text):
        path = GOLDEN / name
        if sys.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        golden = path.read_text() if path.exists() else ""
        diff = "".join(difflib.unified_diff(golden.splitlines(True), text.splitlines(True),
                                            str(path), "printed now"))
        if diff:
            self.fail(f"{name} differs; if this is meant, run with --update:\n{diff}")

    def test_help_of_each_command(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                done = self.run_program([*command.split(), "--help"])
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stderr, "")
                self.check(f"help/{command.replace(' ', '-') or 'longhaul'}.txt", done.stdout)

    def test_every_command_of_the_help_has_a_file(self):
        for command in ["", "jobs", "nodes", "queues", "checkpoint"]:
            text = self.run_program([*command.split(), "--help"]).stdout
            for name in re.findall(r"^  ([a-z][a-z-]+) {2,}\S", text, re.MULTILINE):
                self.assertIn(f"{command} {name}".strip(), COMMANDS)

    def test_errors_of_wrong_use(self):
        text = ""
        for line in WRONG:
            done = self.run_program(shlex.split(line))
            self.assertNotEqual(done.returncode, 0, line)
            said = (done.stdout + done.stderr).replace(self.folder, "FOLDER")
            text += f"$ longhaul {line}".rstrip() + f"\n{said.rstrip()}\n[{done.returncode}]\n\n"
        self.check("errors.txt", text)


if __name__ == "__main__":
    sys.update = "--update" in sys.argv
    if sys.update:
        sys.argv.remove("--update")
    sys.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
