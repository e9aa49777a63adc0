"""Scripts written for torchrun under `longhaul run`, compared with torchrun: one row of docs/pytorch.md.

A row of a recipe (`--framework`) runs the same script, with the command that the recipe makes.

usage: table.py LONGHAUL RESULTS VERSION SCRIPT     one row: run it and write RESULTS/VERSION-SCRIPT.json
       table.py --document RESULTS                  write docs/pytorch.md from the rows in RESULTS

VERSION is 1.13 (the PyTorch of /usr/bin/python3), or a version that tools/pytorch_environment makes.
A row runs the script four times: under torchrun, under `longhaul run`, and under `longhaul run` with a
killed worker and with a killed agent. All of them must end with exit code 0 and with the same bits of
the loss. A killed run must continue from the script's own checkpoint.

A row is skipped if its environment is not made. Because a row takes about a minute, all but one are also
skipped unless LONGHAUL_PYTORCH_TABLE is set: to 1, or to "make", which makes missing environments.
"""
import dataclasses
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
from ddp_test import Run  # noqa: E402

SCRIPTS = HERE / "scripts"
LIMIT_S = 300
KILL_STEP = 7  # checkpoints are taken after steps 5, 10 and 15
STEP_TIME_S = 0.1  # between the checkpoint and the kill lie two steps
STEPS = r"step (?P<step>\d+) loss (?P<loss>\S+)"
TITAN_CONFIG = """
[training]
steps = 15
step_time = {step_time}

[checkpoint]
folder = "{folder}"
interval = 5
"""


@dataclasses.dataclass
class Script:
    title: str
    file: str
    nodes: int = 2
    procs: int = 1
    since: tuple = (2, 4)
    missing: str = ""  # the reason for which older versions cannot run it
    packages: str = ""  # the option of tools/pytorch_environment that adds what it imports
    short: bool = False  # always run with PyTorch 1.13, with which it takes 20 seconds
    pattern: str = STEPS
    framework: str = ""  # the recipe of docs/frameworks.md that makes the command
    environment: dict = dataclasses.field(default_factory=dict)


NO_SHARDING = "FSDP2 came with PyTorch 2.4, and needs a GPU there"
NO_DCP = "PyTorch 1.13 has no `get_state_dict`"
ABSENT = "the library does not support PyTorch 1.13"
LIBRARIES, DEEPSPEED = "--libraries", "--deepspeed"
ROWS = {
    "ddp": Script("DistributedDataParallel", "ddp.py", since=(1, 13), short=True),
    "fsdp2": Script("FSDP2 (`fully_shard`)", "fsdp2.py", since=(2, 6), missing=NO_SHARDING),
    "tensor_parallel": Script("FSDP2 and DTensor tensor parallelism, 2 x 2", "tensor_parallel.py",
                              procs=2, since=(2, 6), missing=NO_SHARDING),
    "checkpoint": Script("`torch.distributed.checkpoint` `save` and `load`", "checkpoint.py",
                         missing=NO_DCP),
    "checkpoint_async": Script("`torch.distributed.checkpoint` `async_save`", "checkpoint_async.py",
                               missing=NO_DCP),
    "data_loader": Script("`DataLoader` with worker processes", "data_loader.py", since=(1, 13)),
    "compiled": Script("`torch.compile`", "compiled.py",
                       missing="PyTorch 1.13 has no `torch.compile`"),
    "lightning": Script("Lightning `Trainer`", "lightning_trainer.py", packages=LIBRARIES,
                        missing=ABSENT),
    "transformers": Script("Hugging Face `Trainer`", "transformers_trainer.py", packages=LIBRARIES,
                           since=(2, 6),
                           missing="Transformers needs PyTorch 2.6 to load its checkpoints"),
    "accelerate": Script("Accelerate", "accelerated.py", packages=LIBRARIES, missing=ABSENT),
    "nanogpt": Script("nanoGPT's start command", "gpt.py", nodes=1, procs=2, since=(1, 13),
                      pattern="nanogpt"),
    "torchtitan": Script("torchtitan's start command", "titan_like", nodes=1, procs=2,
                         pattern="torchtitan", since=(2, 6), missing=NO_SHARDING,
                         environment={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    "recipe_pytorch": Script("`--framework pytorch`", "ddp.py", since=(1, 13),
                             framework="pytorch"),
    "recipe_lightning": Script("`--framework lightning`", "lightning_trainer.py",
                               packages=LIBRARIES, framework="lightning", missing=ABSENT),
    "recipe_accelerate": Script("`--framework accelerate`", "accelerated.py", packages=LIBRARIES,
                                framework="accelerate", missing=ABSENT),
    "recipe_deepspeed": Script("`--framework deepspeed`", "deepspeed_trainer.py",
                               packages=DEEPSPEED, framework="deepspeed", missing=ABSENT,
                               environment={"DS_ACCELERATOR": "cpu"}),
}
VERSIONS = ("2.15", "2.4", "1.13")
COLUMNS = ("clean", "killed worker", "killed agent")


def numbers(version):
    return tuple(map(int, version.split(".")))


def reason_against(version, script):
    """Why this version cannot run this script; empty if it can."""
    return script.missing if numbers(version) < script.since else ""


def command_of(script, name, place):
    """torchrun's options beside the number of processes, and the script with its arguments."""
    if name == "nanogpt":
        return ["--standalone", "--nproc_per_node=2", str(SCRIPTS / "gpt.py"),
                str(SCRIPTS / "gpt_config.py"), f"--out_dir={place}",
                f"--iter_time={STEP_TIME_S}"]
    if name == "torchtitan":
        config = place.with_suffix(".toml")
        config.write_text(TITAN_CONFIG.format(folder=place, step_time=STEP_TIME_S))
        return ["--nproc_per_node=2", "--rdzv_backend", "c10d", "--rdzv_endpoint=localhost:0",
                "--local-ranks-filter", "0", "--role", "rank", "--tee", "3", "-m",
                "titan_like.train", "--job.config_file", str(config)]
    return [str(SCRIPTS / script.file), "--folder", str(place), "--step-time", str(STEP_TIME_S)]


class Row(unittest.TestCase):
    """The runs of one script with one version of PyTorch."""

    @classmethod
    def setUpClass(cls):
        cls.python = cls.find_python()
        cls.top = pathlib.Path(tempfile.mkdtemp(prefix="pytorch-table-"))
        cls.addClassCleanup(shutil.rmtree, cls.top)
        script = ROWS[sys.script]
        variables = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore",
                     "TORCHINDUCTOR_CACHE_DIR": str(cls.top / "inductor"), "HF_HUB_OFFLINE": "1",
                     "GLOO_SOCKET_IFNAME": "lo", "TP_SOCKET_IFNAME": "lo", **script.environment}
        if sys.script == "torchtitan":
            variables["PYTHONPATH"] = str(SCRIPTS)
        cls.environment = {**os.environ, **variables, "PYTHON_EXEC": cls.python}
        cls.cells = {}
        cls.torchrun = cls.run_torchrun(script)

    @classmethod
    def find_python(cls):
        script, wish = ROWS[sys.script], os.environ.get("LONGHAUL_PYTORCH_TABLE", "")
        if reason_against(sys.torch, script):
            raise unittest.SkipTest(reason_against(sys.torch, script))
        if not wish and not (script.short and sys.torch == "1.13"):
            raise unittest.SkipTest("this row takes a minute: set LONGHAUL_PYTORCH_TABLE=1 to run it")
        if sys.torch == "1.13":
            found = subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed.elastic"],
                                   capture_output=True)
            if found.returncode != 0:
                raise unittest.SkipTest("/usr/bin/python3 HAS NO PYTORCH: install python3-torch")
            return "/usr/bin/python3"
        found = subprocess.run(
            [sys.executable, "-B", ROOT / "tools/pytorch_environment", sys.torch,
             *([script.packages] if script.packages else []),
             *([] if wish == "make" else ["--if-made"])], capture_output=True, text=True)
        if found.returncode != 0:
            raise unittest.SkipTest(found.stderr.strip().splitlines()[-1])
        return found.stdout.strip()

    @classmethod
    def run_torchrun(cls, script):
        """The loss of the script under torchrun; all of its ranks are on one node.

        A worker of PyTorch 2.15 sometimes aborts after its last step, when the interpreter ends.
        Longhaul starts the job again then; torchrun without --max-restarts fails, and is repeated.
        """
        for repeat in range(3):
            done = cls.torchrun_once(script, cls.top / f"torchrun-{repeat}")
            if done.returncode == 0:
                return cls.loss_in(done.stdout)
            if "terminate called without an active exception" not in done.stderr:
                break
        raise AssertionError(f"torchrun ended with {done.returncode}\n{done.stdout}{done.stderr}")

    @classmethod
    def torchrun_once(cls, script, place):
        place.mkdir()
        words = command_of(script, sys.script, place)
        if script.nodes > 1:
            words = ["--standalone", "--nproc_per_node", str(script.nodes * script.procs), *words]
        if sys.torch == "1.13":  # Debian's torchrun does not start without redirections
            words = ["-r", "1", "-t", "1", *words]
        return subprocess.run([cls.python, "-m", "torch.distributed.run", *words], cwd=cls.top,
                              env=cls.environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=LIMIT_S)

    @staticmethod
    def loss_in(text):
        found = re.findall(r"final loss (\S+)", text)
        if len(found) != 1:
            raise AssertionError(f"expected one final loss\n{text}")
        return found[0]

    def run_longhaul(self, cell, fault=None):
        script = ROWS[sys.script]
        place = self.top / cell.replace(" ", "-")
        place.mkdir()
        words = ["--name", "row", "--run-dir", f"{place}.run", "--step-pattern", script.pattern]
        if fault:
            words += ["--inject", f"{fault} at step {KILL_STEP}"]
        if script.framework:
            words += ["--framework", script.framework]
        if script.nodes > 1:
            words += ["--nnodes", str(script.nodes), "--nproc-per-node", str(script.procs)]
        run = Run(sys.longhaul, str(self.top), [*words, *command_of(script, sys.script, place)],
                  limit_s=LIMIT_S, **self.environment)
        self.addCleanup(lambda: run.child.poll() is None and run.child.kill())
        code = run.end()
        text = run.text()
        self.assertEqual(code, 0, text)
        report = json.loads((pathlib.Path(f"{place}.run") / "report.json").read_text())
        self.assertEqual(report["state"], "succeeded", text)
        kinds = {None: [], "kill worker 1": ["process"]}
        faults = [each["class_name"] for each in report["faults"]]
        self.assertEqual(faults, kinds.get(fault, ["node"]), text)
        firsts = [int(step) for step in re.findall(r"first step (\d+)", text)]
        self.assertEqual(firsts, [1, 6] if fault else [1], text)
        self.assertEqual(self.loss_in(text), self.torchrun, text)
        self.cells[cell] = "passed"

    def test_clean(self):
        self.run_longhaul("clean")

    def test_killed_agent(self):
        self.run_longhaul("killed agent", f"kill agent {ROWS[sys.script].nodes}")

    def test_killed_worker(self):
        self.run_longhaul("killed worker", "kill worker 1")

    @classmethod
    def tearDownClass(cls):
        found = subprocess.run(
            [cls.python, "-c", "import torch; print(torch.__version__)"], text=True,
            capture_output=True, env=cls.environment)
        pathlib.Path(sys.results).mkdir(parents=True, exist_ok=True)
        row = {"torch": found.stdout.strip(), "date": datetime.date.today().isoformat(),
               "loss": float.fromhex(cls.torchrun), "cells": cls.cells}
        path = pathlib.Path(sys.results) / f"{sys.torch}-{sys.script}.json"
        path.write_text(json.dumps(row, indent=1) + "\n")


def cells_of(results, version, name):
    """The texts of the cells of one row in the table."""
    reason = reason_against(version, ROWS[name])
    if reason:
        return [f"not applicable: {reason}"]
    path = pathlib.Path(results) / f"{version}-{name}.json"
    if not path.exists():
        return ["not tested"]
    cells = json.loads(path.read_text())["cells"]
    return [cells.get(column, "failed") for column in COLUMNS]


def table_text(results):
    """The rows of docs/pytorch.md."""
    lines = ["| script | PyTorch | " + " | ".join(COLUMNS) + " |", "|---" * 5 + "|"]
    for name, script in ROWS.items():
        for version in VERSIONS:
            cells = cells_of(results, version, name)
            cells += [""] * (len(COLUMNS) - len(cells))
            lines.append(f"| {script.title} | {version} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_document(results):
    """Replaces the table in docs/pytorch.md."""
    path = ROOT / "docs/pytorch.md"
    before, rest = path.read_text().split("<!-- table -->\n")[0::2]
    rows = [json.loads(each.read_text()) for each in pathlib.Path(results).glob("*.json")]
    tested = ", ".join(sorted({row["torch"] for row in rows}))
    dates = sorted({row["date"] for row in rows})
    period = " to ".join(sorted({dates[0], dates[-1]}))
    facts = f"Last run: {period}, with PyTorch {tested}.\n\n"
    path.write_text(f"{before}<!-- table -->\n{facts}{table_text(results)}<!-- table -->\n{rest}")


if __name__ == "__main__":
    if sys.argv[1] == "--document":
        write_document(sys.argv[2])
    else:
        sys.longhaul, sys.results = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
        sys.torch, sys.script = sys.argv[3:5]
        unittest.main(argv=sys.argv[:1], verbosity=2)
