#!/usr/bin/env python3
"""Tokens per second and memory of the built-in trainer beside the same model in PyTorch.

  throughput.py --build build/torch2 [--python PYTHON] [--processes 2] [--pairs 5] [--micro-batch 8]

PyTorch's model is gpt.py, eager and with torch.compile. All train the model of
examples/headers-gpt.yaml in f32 with AdamW from the same weights on the same samples; a process has
one thread. First the losses of a few steps are compared (1e-4, and 5e-5 for the four digits that
the trainer prints). Then the programs run in turns. A figure is the median over the turns; of a
turn it is the median step after the first ten, and the peak resident memory of the fullest process.
"""

import argparse
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WARM_STEPS = 10
COMPARED_STEPS = 8
TOLERANCE = 1e-4 + 5e-5
LINE = re.compile(r"^step (\d+) loss ([\d.]+).* at ([\d.]+) s$", re.MULTILINE)
MODEL = {"kind": "gpt", "layers": 4, "hidden": 128, "heads": 4, "sequence": 128, "vocabulary": 257}
TRAIN = {"global_batch": 32, "learning_rate": 0.008, "warmup_steps": 20, "beta1": 0.9,
         "beta2": 0.95, "clip": 1.0, "weight_decay": 0.1, "final_learning_rate_ratio": 0.1,
         "seed": 1, "evaluate_every": 0, "evaluate_sequences": 1}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run(command, processes):
    """Runs one process a rank; returns rank 0's steps and the memory of the fullest process."""
    environment = {**os.environ, "WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "lo"}
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        environment[name] = "1"
    with tempfile.TemporaryFile("w+") as output:
        children = [subprocess.Popen([str(word) for word in command], text=True,
                                     env={**environment, "RANK": str(rank)},
                                     stdout=output if rank == 0 else subprocess.DEVNULL)
                    for rank in range(processes)]
        memory = 0
        for child in children:
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            memory = max(memory, usage.ru_maxrss * 1024)
        output.seek(0)
        text = output.read()
    failed = [child.returncode for child in children if child.returncode != 0]
    if failed:
        sys.exit(f"{command[0]} ended with exit code {failed[0]}")
    return [(float(loss), float(at)) for _, loss, at in LINE.findall(text)], memory


class Bench:
    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        job = folder / "job.json"
        job.write_text(json.dumps({
            "name": "weights", "model": {k: v for k, v in MODEL.items() if k != "vocabulary"},
            "data": {"include": ["/usr/include/**/*.h"], "max_bytes": "32MiB"},
            "train": {"steps": 1, "warmup_steps": 0}}))
        subprocess.run([options.build / "src/bin/longhaul", "run", job, "--quiet", "--nodes", "1",
                        "--procs", "1", "--run-dir", folder / "run"], check=True,
                       stdout=subprocess.DEVNULL)
        self.trainer = options.build / "src/bin/longhaul-trainer"
        self.samples = folder / "run/samples/rank-0.e1.bin"

    def trainer_steps(self, steps, processes, record=False):
        config = self.folder / "config.json"
        run_directory = self.folder / "recorded"
        run_directory.mkdir(exist_ok=True)
        config.write_text(json.dumps({
            "model": MODEL, "train": {**TRAIN, "steps": steps}, "layout": {"data": processes},
            "micro_batch": self.options.micro_batch or "auto",
            "data_directory": str(self.folder / "run/data"), "run_directory": str(run_directory),
            "record_samples": record,
            "from": {"folder": str(self.folder / "run/checkpoints"), "step": 1, "attempt": 1}}))
        if record:
            self.samples = run_directory / "samples/rank-0.e1.bin"
        return run([self.trainer, "--worker", config], processes)

    def torch_steps(self, steps, processes, compiled):
        settings = self.folder / "settings.json"
        weights = next((self.folder / "run/checkpoints").glob("step-*/rank-*.safetensors"))
        settings.write_text(json.dumps({
            "model": MODEL, "train": {**TRAIN, "steps": steps}, "weights": str(weights),
            "tokens": str(self.folder / "run/data/train.tokens"), "samples": str(self.samples),
            "micro_batch": self.options.micro_batch, "compile": compiled}))
        return run([self.options.python, "-B", ROOT / "bench/trainer/gpt.py", settings], processes)

    def programs(self):
        programs = {"trainer": self.trainer_steps,
                    "eager": lambda steps, n: self.torch_steps(steps, n, False)}
        if not self.options.no_compile:
            programs["compile"] = lambda steps, n: self.torch_steps(steps, n, True)
        return programs

    def compare_losses(self):
        """Ends the program if PyTorch's model computes something else."""
        self.trainer_steps(self.options.steps, 1, record=True)
        losses = {name: [loss for loss, _ in run_steps(COMPARED_STEPS, self.options.processes)[0]]
                  for name, run_steps in self.programs().items()}
        for name, values in losses.items():
            far = max(abs(a - b) for a, b in zip(values, losses["trainer"], strict=True))
            print(f"losses of {name}: at most {far:.6f} from the trainer's in "
                  f"{COMPARED_STEPS} steps", flush=True)
            if far > TOLERANCE:
                sys.exit(f"{name} computes another loss: {values}, not {losses['trainer']}")

    def measure(self):
        figures = {name: ([], []) for name in self.programs()}
        for _ in range(self.options.pairs):
            for name, run_steps in self.programs().items():
                steps, memory = run_steps(self.options.steps, self.options.processes)
                times = [at for _, at in steps[WARM_STEPS:]]
                figures[name][0].append(
                    statistics.median(b - a for a, b in zip(times, times[1:])))
                figures[name][1].append(memory)
        return figures


def report(options, figures):
    tokens = TRAIN["global_batch"] * MODEL["sequence"]
    ours, our_memory = figures["trainer"]
    print(f"{options.processes} processes, micro-batch {options.micro_batch or 'whole'}, "
          f"{options.pairs} turns of {options.steps} steps, load average {os.getloadavg()[0]:.1f}")
    for name, (seconds, memory) in figures.items():
        step = statistics.median(seconds)
        ratio = statistics.median(b / a for a, b in zip(ours, seconds))
        print(f"{name:8} {tokens / step:9,.0f} tokens/s  step {step * 1e3:6.1f} ms  trainer is "
              f"{ratio:.2f}x  memory {statistics.median(memory) / 2**20:6.1f} MiB  trainer has "
              f"{statistics.median(our_memory) / statistics.median(memory):.2f}x")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/torch2")
    parser.add_argument("--python",
                        help="a Python with PyTorch (default: tools/pytorch_environment 2.15)")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--micro-batch", type=int, default=0, help="0: a rank's whole part")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    options = parser.parse_args()
    options.build = options.build.resolve()
    if options.python is None:
        options.python = subprocess.run(
            [ROOT / "tools/pytorch_environment", "2.15"], check=True, text=True,
            stdout=subprocess.PIPE).stdout.strip()
    print(f"load average before {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d %H:%M')}")
    peak = subprocess.run([options.build / "src/bin/longhaul-trainer", "--measure-peak"],
                          check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    print(f"the trainer's products of matrices: {peak}")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, pathlib.Path(folder))
        bench.compare_losses()
        report(options, bench.measure())


if __name__ == "__main__":
    main()
