"""The recipes of docs/frameworks.md, compared with the frameworks' own launchers.

usage: frameworks_test.py LONGHAUL VERSION

VERSION is a version that tools/pytorch_environment makes. Each test starts two workers with the
launcher and with `longhaul run` of a job file, and compares their arguments and environments. A
test is skipped if its environment is not made, or lacks the framework.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from ddp_test import Run  # noqa: E402

LIMIT_S = 120
FACTS = """
import json, os, sys
place = os.path.join(os.environ["PLACE"], os.environ["RANK"])
with open(place + ".new", "w") as file:
    json.dump({"environment": dict(os.environ), "argv": sys.argv[1:],
               "options": sys.orig_argv[1:-len(sys.argv)]}, file)
os.replace(place + ".new", place)
"""
# Of these variables only the presence is compared (docs/torchrun.md).
OTHER_VALUES = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_RUN_ID",
                "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_USE_AGENT_STORE", "PLACE", "_"}
ONLY_TORCHRUN = {"TORCHELASTIC_SIGNALS_TO_HANDLE"}
ONLY_LONGHAUL = {"LONGHAUL_AGENT_SOCKET", "LONGHAUL_ATTEMPT", "LONGHAUL_LIBRARY", "NODE_RANK",
                 "NODE_NUM", "PYTHONPATH", "LONGHAUL_TEST_MARK", "PYTHONUNBUFFERED"}
# What torchrun sets, and DeepSpeed's launcher does not.
OF_TORCHRUN = {"GROUP_RANK", "GROUP_WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_NAME", "ROLE_RANK",
               "ROLE_WORLD_SIZE", "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_MAX_RESTARTS",
               "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE",
               "TORCH_NCCL_ASYNC_ERROR_HANDLING", "OMP_NUM_THREADS"}
# Set by the packages that the launcher imports, in its own process.
OF_IMPORTS = {"PYTORCH_NVML_BASED_CUDA_CHECK", "TORCHINDUCTOR_CACHE_DIR"}


def find_python(*options):
    found = subprocess.run([sys.executable, "-B", ROOT / "tools/pytorch_environment", sys.torch,
                            *options, "--if-made"], capture_output=True, text=True)
    if found.returncode != 0:
        raise unittest.SkipTest(found.stderr.strip().splitlines()[-1])
    return found.stdout.strip()


class Frameworks(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="frameworks-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "script.py").write_text(FACTS)
        (self.folder / "titan").mkdir()
        (self.folder / "titan/train.py").write_text(FACTS)
        self.environment = {key: value for key, value in os.environ.items()
                            if key not in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")}
        self.environment.update(PYTHONWARNINGS="ignore", HOME=str(self.folder),
                                PYTHONDONTWRITEBYTECODE="1")

    def facts(self, place):
        found = {path.name: json.loads(path.read_text()) for path in place.iterdir()}
        self.assertEqual(sorted(found), ["0", "1"])
        return found

    def run_launcher(self, *words, **environment):
        place = self.folder / "launcher"
        place.mkdir()
        done = subprocess.run(words, cwd=self.folder, text=True, capture_output=True,
                              env={**self.environment, **environment, "PLACE": str(place)},
                              stdin=subprocess.DEVNULL, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.facts(place)

    def run_recipe(self, python, **keys):
        place = self.folder / "longhaul"
        place.mkdir()
        job = {"name": "recipe", "python": python,
               "resources": {"nodes": 1, "processes_per_node": 2}, **keys}
        (self.folder / "job.json").write_text(json.dumps(job))
        kept = {name: os.environ.pop(name, None) for name in (
            "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")}
        try:
            run = Run(sys.longhaul, str(self.folder), ["job.json"],
                      **{**self.environment, "PLACE": str(place)})
        finally:
            os.environ.update({name: text for name, text in kept.items() if text is not None})
        self.addCleanup(lambda: run.child.poll() is None and run.child.kill())
        self.assertEqual(run.end(), 0, run.text())
        return self.facts(place)

    def compare(self, ours, theirs, only_launcher=frozenset(), only_longhaul=frozenset(),
                added=(), other_values=frozenset()):
        """`added`: the arguments that the recipe adds, which the launcher does not know."""
        for rank in ("0", "1"):
            words = [word for word in ours[rank]["argv"] if word not in added]
            self.assertEqual(words, theirs[rank]["argv"])
            self.assertEqual(ours[rank]["options"], theirs[rank]["options"])
            got, want = ours[rank]["environment"], theirs[rank]["environment"]
            self.assertEqual(want.keys() - got.keys() - ONLY_TORCHRUN - OF_IMPORTS,
                             set(only_launcher))
            self.assertEqual(got.keys() - want.keys() - ONLY_LONGHAUL, set(only_longhaul))
            for name in sorted((got.keys() & want.keys()) - OTHER_VALUES - ONLY_LONGHAUL - other_values):
                self.assertEqual(got[name], want[name], f"{name} of rank {rank}")

    def test_pytorch_is_started_as_by_torchrun(self):
        python = find_python()
        theirs = self.run_launcher(python, "-m", "torch.distributed.run", "--nproc-per-node=2",
                                   "script.py", "--a", "b")
        ours = self.run_recipe(python, framework="pytorch", script="script.py", args=["--a", "b"])
        self.compare(ours, theirs)

    def test_megatron_is_started_as_by_its_start_script(self):
        python = find_python()
        theirs = self.run_launcher(
            python, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--nnodes", "1",
            "script.py", "--bf16", "--save", "/c", "--load", "/c", "--save-interval", "9",
            CUDA_DEVICE_MAX_CONNECTIONS="1")
        ours = self.run_recipe(python, framework="megatron", script="script.py", args=["--bf16"],
                               checkpoint_directory="/c", checkpoint_interval=9)
        self.compare(ours, theirs)

    def test_torchtitan_is_started_as_by_its_start_script(self):
        python = find_python()
        theirs = self.run_launcher(
            python, "-m", "torch.distributed.run", "--nproc_per_node=2", "--rdzv_backend", "c10d",
            "--rdzv_endpoint=localhost:0", "--local-ranks-filter", "0", "--role", "rank",
            "--tee", "3", "-m", "titan.train", "--module", "llama3",
            PYTORCH_ALLOC_CONF="expandable_segments:True", LOG_RANK="0", TORCHFT_LIGHTHOUSE="x")
        ours = self.run_recipe(python, framework="torchtitan", module="titan.train",
                               args=["--module", "llama3"])
        self.compare(ours, theirs, only_launcher={"LOG_RANK", "TORCHFT_LIGHTHOUSE"}, added=(
            "--checkpoint.enable", "--checkpoint.folder", "checkpoints/recipe"))

    def test_accelerate_is_started_as_by_accelerate_launch(self):
        python = find_python("--libraries")
        theirs = self.run_launcher(
            python, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2",
            "--num_machines", "1", "--main_process_port", "0", "script.py", "--a", "b")
        ours = self.run_recipe(python, framework="accelerate", script="script.py",
                               args=["--a", "b"])
        self.compare(ours, theirs)

    def test_lightning_is_started_as_by_fabric_run(self):
        python = find_python("--libraries")
        theirs = self.run_launcher(
            python, "-m", "lightning.fabric.cli", "--devices", "2", "--accelerator", "cpu",
            "script.py", "--a", "b")
        ours = self.run_recipe(python, framework="lightning", script="script.py",
                               args=["--a", "b"])
        self.compare(ours, theirs, only_launcher={
            "LT_CLI_USED", "LT_ACCELERATOR", "LT_DEVICES", "LT_NUM_NODES"},
                     other_values={"OMP_NUM_THREADS"})

    def test_deepspeed_is_started_as_by_its_launcher(self):
        python = find_python("--deepspeed")
        theirs = self.run_launcher(python, "-m", "deepspeed.launcher.runner", "--num_gpus", "2",
                                   "--master_port", "29512", "script.py", "--a", "b",
                                   DS_ACCELERATOR="cpu")
        ours = self.run_recipe(python, framework="deepspeed", script="script.py",
                               args=["--a", "b"], environment={"DS_ACCELERATOR": "cpu"})
        self.assertEqual(ours["1"]["argv"], ["--local_rank=1", "--a", "b"])
        # The recipe's shell sets PWD to the working directory; other launchers pass on their own.
        # CUDA_VISIBLE_DEVICES is Longhaul's matter where a cluster file declares devices.
        self.compare(ours, theirs, only_longhaul=OF_TORCHRUN, only_launcher={
            "CUDA_VISIBLE_DEVICES"}, other_values={"PWD"})


if __name__ == "__main__":
    sys.longhaul, sys.torch = os.path.abspath(sys.argv[1]), sys.argv[2]
    unittest.main(argv=sys.argv[:1], verbosity=2)
