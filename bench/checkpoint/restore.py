#!/usr/bin/env python3
"""What a restore costs beside a plain copy of as many bytes, in the same process.

    python3 bench/checkpoint/restore.py [--mib 1024] [--rounds 5] [--python PYTHON]

A worker under `longhaul run` takes one snapshot of a state of 468 tensors in a GPT's sizes and
kills itself. Its next life restores from the memory of its agent and reports, in seconds:

- restore: longhaul.restore(), every byte verified, into memory of its own
- into: longhaul.restore(into=state), into tensors that are there (every second round)
- fresh: one thread copies the same bytes by memcpy to memory whose pages are not there yet
- there: the same to memory whose pages are there
- load: load_state_dict-like copies of every tensor into a model that is there
- step: from the end of that to the end of one pass over the state

The figures of a round are of one process, one after the other; the medians are of the rounds.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

WORKER = '''
import ctypes, json, mmap, os, resource, signal, sys, time
import torch
import longhaul

mib, rounds = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
life = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
d = 16
while 12 * (d + 16) ** 2 <= mib * 2**20 / 39 / 4:
    d += 16
rows = [3, 0, 1, 0, 4, 0, 4, 0, 0, 0, 0, 0]


def make():
    return {f"layer.{i}": torch.ones(rows[i % 12] * d, d) if rows[i % 12] else torch.ones(d)
            for i in range(468)}


def timed(work):
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    begin = time.monotonic()
    result = work()
    seconds = time.monotonic() - begin
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults, result


state = make()
bytes_ = sum(4 * tensor.numel() for tensor in state.values())
if life > 0:
    into = {"model": state} if life % 2 == 0 else None
    restore, faults, saved = timed(lambda: longhaul.restore(into))
    assert saved.step == life and torch.equal(saved.state["model"]["layer.5"], state["layer.5"])
    model = state if into is None else make()
    load, _, _ = timed(lambda: [model[name].copy_(tensor)
                                for name, tensor in saved.state["model"].items()])
    step, _, _ = timed(lambda: [tensor.mul_(1.0) for tensor in model.values()])
    source = mmap.mmap(-1, bytes_, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    source_at = ctypes.addressof(ctypes.c_char.from_buffer(source))
    ctypes.memset(source_at, 1, bytes_)
    target = mmap.mmap(-1, bytes_, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    target_at = ctypes.addressof(ctypes.c_char.from_buffer(target))
    fresh, fresh_faults, _ = timed(lambda: ctypes.memmove(target_at, source_at, bytes_))
    there, _, _ = timed(lambda: ctypes.memmove(target_at, source_at, bytes_))
    print(json.dumps({"bytes": bytes_, "into" if into else "restore": restore, "fresh": fresh,
                      "there": there, "load": load, "step": step, "faults": faults,
                      "fresh_faults": fresh_faults}), flush=True)
if life < rounds:
    if life == 0:
        longhaul.restore()
    begin = time.monotonic()
    longhaul.snapshot({"model": state}, life + 1)
    print(json.dumps({"snapshot": time.monotonic() - begin}), flush=True)
    longhaul.report(life + 1)
    os.kill(os.getpid(), signal.SIGKILL)
longhaul.report(life + 1)
'''


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--python", default="/usr/bin/python3", help="one with PyTorch")
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    parser.add_argument("--package", default=os.path.join(ROOT, "python"),
                        help="the folder of the Python package, to compare two")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="restore-") as folder:
        with open(os.path.join(folder, "worker.py"), "w") as file:
            file.write(WORKER)
        environment = {**os.environ, "PYTHONPATH": arguments.package}
        done = subprocess.run(
            [os.path.join(arguments.build, "src/bin/longhaul"), "run", "--nodes", "1", "--procs",
             "1", "--max-restarts", "100", "--run-dir", "run", "--", arguments.python, "worker.py",
             str(arguments.mib), str(arguments.rounds)],
            cwd=folder, env=environment, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        found = {}
        logs = os.path.join(folder, "run/logs")
        size = 0
        for place in sorted(os.listdir(logs)):
            path = os.path.join(logs, place, "rank-0.log")
            if not os.path.exists(path):
                continue
            for line in open(path):
                if line.startswith("{"):
                    for key, value in json.loads(line).items():
                        found.setdefault(key, []).append(value)
        if done.returncode != 0 or "fresh" not in found:
            sys.exit(done.stdout)
    size = found.pop("bytes")[0]
    medians = {key: statistics.median(values) for key, values in found.items()}
    if arguments.json:
        print(json.dumps({"bytes": size, "median": medians, "all": found}))
        return
    print(f"{size / 2**20:.0f} MiB, load average {os.getloadavg()[0]:.1f}, medians of "
          f"{len(found['fresh'])} rounds")
    for key, value in medians.items():
        if "faults" in key:
            print(f"  {key:14} {value:.0f}")
        else:
            print(f"  {key:14} {value:.3f} s, {value / medians['fresh']:.2f} of a copy to fresh "
                  "pages")


if __name__ == "__main__":
    main()
