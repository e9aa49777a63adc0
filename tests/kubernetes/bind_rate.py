"""Measures how fast the client binds pods through the real kube-apiserver, and at what CPU cost.

  bind_rate.py BIND_RATE [--nodes N] [--pods N] [--rounds N]

BIND_RATE is the built program kubernetes_bind_rate. The first line is of a cold server and does not
count: the API server binds its first thousands of pods at a third of the rate.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from api_server import ApiServer, programs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    binaries, reason = programs("kube-apiserver", "etcd")
    if binaries is None:
        print(f"bind_rate: {reason}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder, ApiServer(binaries, folder) as server:
        words = [given.program.resolve(), server.kubeconfig, str(given.nodes)]
        warm = subprocess.run([*words, "4000"], capture_output=True, text=True, check=True)
        print("warming:", warm.stdout.strip())
        for _ in range(given.rounds):
            before = [server.cpu_seconds(name) for name in ("kube-apiserver", "etcd")]
            done = subprocess.run([*words, str(given.pods)], capture_output=True, text=True,
                                  check=True)
            after = [server.cpu_seconds(name) for name in ("kube-apiserver", "etcd")]
            # Of the whole round: creates and deletions, too.
            spent = [(b - a) * 1e3 / given.pods for a, b in zip(before, after)]
            print(f"{done.stdout.strip()}; of create, bind and delete: kube-apiserver "
                  f"{spent[0]:.2f}, etcd {spent[1]:.2f} ms a pod; load {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
