"""The machine that is checked: its Python, its PyTorch, its GPUs, and the installed wheel."""

import json
import os
import pathlib
import platform
import subprocess
import sys
import time

# Prints one JSON object about the Python that runs it.
PROBE = """
import json, platform, sys
facts = {"python": platform.python_version(), "torch": None, "cuda": None, "gpus": []}
try:
    import torch
    facts["torch"], facts["cuda"] = torch.__version__, torch.version.cuda
    if torch.cuda.is_available():
        for i in range(torch.cuda.device_count()):
            each = torch.cuda.get_device_properties(i)
            facts["gpus"].append({"name": each.name, "memory_bytes": each.total_memory})
except ImportError:
    pass
print(json.dumps(facts))
"""


class Failure(Exception):
    """Something is not as it has to be; the text says what."""


class NotApplicable(Exception):
    """The part cannot run here; the text says what is missing."""


def run(*words, limit=300, **options):
    """Runs a command and returns its result; a Failure after `limit` seconds."""
    words = [str(word) for word in words]
    try:
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=limit, **options)
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(words[:4])} ... did not end within {limit} s") from None
    except OSError as error:
        raise Failure(f"{words[0]}: {error.strerror}") from None


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else "(no output)"


class Machine:
    """Installs the wheel into a folder of its own and runs the installed program."""

    def __init__(self, python, wheel, folder):
        self.python, self.wheel = str(python), pathlib.Path(wheel)
        self.folder = pathlib.Path(folder)
        self.site = self.folder / "site"
        self.facts = self._probe()

    def _probe(self):
        done = run(self.python, "-c", PROBE, limit=120)
        if done.returncode != 0:
            raise Failure(f"{self.python} cannot be used: {last_line(done.stderr)}")
        return json.loads(last_line(done.stdout))

    @property
    def gpus(self):
        return self.facts["gpus"]

    @property
    def device(self):
        return "cuda" if self.gpus else "cpu"

    def need_torch(self, oldest=(2, 4)):
        version = self.facts["torch"]
        if version is None:
            raise NotApplicable(f"{self.python} has no PyTorch")
        if tuple(int(part) for part in version.split("+")[0].split(".")[:2]) < oldest:
            raise NotApplicable(f"PyTorch {version} is older than {oldest[0]}.{oldest[1]}")

    def need_gpu(self):
        if not self.gpus:
            raise NotApplicable("there is no NVIDIA GPU that PyTorch can use")

    def install(self):
        """Installs the wheel without a network; returns the seconds that it took."""
        began = time.perf_counter()
        done = run(self.python, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet",
                   "--disable-pip-version-check", "--target", self.site, self.wheel)
        if done.returncode != 0:
            raise Failure(f"pip cannot install {self.wheel.name}: {last_line(done.stderr)}")
        return time.perf_counter() - began

    @property
    def program(self):
        return self.site / "bin" / "longhaul"

    def environment(self):
        """This process's environment with the installed package, without a cluster's settings."""
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("LONGHAUL", "PET_", "TORCHELASTIC"))}
        kept.update(PYTHONPATH=str(self.site), OMP_NUM_THREADS="1",
                    XDG_CONFIG_HOME=str(self.folder / "config"), PYTHONDONTWRITEBYTECODE="1")
        return kept

    def longhaul(self, *words, limit=300, folder=None):
        """Runs the installed program; a Failure with its last line if it does not succeed."""
        done = run(self.program, *words, limit=limit, cwd=folder or self.folder,
                   env=self.environment())
        if done.returncode != 0:
            text = last_line(done.stderr if done.stderr.strip() else done.stdout)
            raise Failure(f"longhaul {words[0]} ended with code {done.returncode}: {text}")
        return done.stdout

    def job(self, name, command, nodes=1, procs=1, inject=None, limit=300):
        """Runs a command as a job; returns its report and its output."""
        folder = self.folder / name
        folder.mkdir()
        words = ["run", "--nodes", nodes, "--procs", procs, "--cluster-nodes", nodes,
                 "--cluster-slots", procs, "--run-dir", folder / "run"]
        if inject:
            words += ["--inject", inject]
        done = run(self.program, *words, "--", *command, limit=limit, cwd=folder,
                   env=self.environment())
        path = folder / "run" / "report.json"
        if not path.exists():
            raise Failure(f"longhaul run ended with code {done.returncode}: "
                          f"{last_line(done.stderr)}")
        report = json.loads(path.read_text(encoding="utf-8"))
        if report["state"] != "succeeded":
            raise Failure(f"the job ended as {report['state']}: {last_line(report['reason'])}")
        if inject and not all(fault["injected"] for fault in report["faults"]):
            raise Failure(f"the fault '{inject}' was not injected")
        if inject and not report["faults"]:
            raise Failure(f"the report has no fault, although '{inject}' was asked for")
        return report, done.stdout

    def description(self):
        """Rows of text for the page."""
        gpus = ", ".join(sorted({each["name"] for each in self.gpus}))
        processor = platform.processor() or platform.machine()
        try:
            for line in open("/proc/cpuinfo", encoding="utf-8", errors="replace"):
                if line.startswith("model name"):
                    processor = line.split(":", 1)[1].strip()
                    break
        except OSError:
            pass
        system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system()) if hasattr(
            platform, "freedesktop_os_release") else platform.system()
        return {
            "GPUs": f"{len(self.gpus)} x {gpus}" if self.gpus else "none",
            "processor": f"{processor}, {os.cpu_count()} cores",
            "system": f"{system}, {platform.libc_ver()[0]} {platform.libc_ver()[1]}",
            "Python": self.facts["python"],
            "PyTorch": self.facts["torch"] or "none",
            "CUDA of PyTorch": self.facts["cuda"] or "none",
            "wheel": self.wheel.name,
        }


def default_python():
    """The python3 of the PATH, which need not be the one that runs this."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        candidate = os.path.join(folder, "python3")
        if os.access(candidate, os.X_OK):
            return candidate
    return sys.executable
