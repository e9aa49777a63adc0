"""What a TrainJob of trainer_test.py runs: a small distributed job, with torchrun's environment.

  trainer_worker.py NAMES FOLDER STEPS

In each step, the process of rank 0 adds up a number of each rank and writes the step to
FOLDER/step, from which it continues after a restart. A process that loses its connection ends with
exit code 1, as a process in a collective does. Each start adds a line to FOLDER/starts. NAMES is a
file of trainer_server.HostNames with the addresses of host names, instead of DNS.
"""

import json
import os
import pathlib
import socket
import sys
import time

START_SECONDS = 60
STEP_SECONDS = 0.05
LOST_SECONDS = 20  # a rank that sends nothing for so long is lost


def address(names, host, pod=None):
    """Waits for the address of a host name, which has to be that of the pod if one is given."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        found = json.loads(names.read_text()).get(host)
        if found and pod in (None, found["pod"]):
            return found["address"]
        time.sleep(0.05)
    sys.exit(f"{host} has no address")


def accept(names, host, port, count):
    """Rank 0: a connection from each other rank."""
    server = socket.create_server((address(names, host, os.environ["LONGHAUL_TEST_POD"]), port))
    server.settimeout(START_SECONDS)
    return [server.accept()[0] for _ in range(count)]


def connect(names, host, port):
    """Another rank: the connection to rank 0, whose name may still have an old address."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            return [socket.create_connection((address(names, host), port), timeout=1)]
        except OSError:
            time.sleep(0.05)
    sys.exit(f"{host} cannot be reached")


def main():
    names, folder, steps = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    host, port = os.environ["PET_MASTER_ADDR"], int(os.environ["PET_MASTER_PORT"])
    nodes, rank = int(os.environ["PET_NNODES"]), int(os.environ["PET_NODE_RANK"])
    with open(folder / "starts", "a") as starts:
        starts.write(json.dumps({"rank": rank, "environment": dict(os.environ)}) + "\n")
    peers = accept(names, host, port, nodes - 1) if rank == 0 else connect(names, host, port)
    for peer in peers:
        peer.settimeout(LOST_SECONDS)
    streams = [peer.makefile("rw", buffering=1) for peer in peers]

    def receive(stream):
        line = stream.readline()
        if not line:
            sys.exit("a rank is lost")
        return int(line)

    if rank == 0:
        saved = folder / "step"
        for step in range(int(saved.read_text()) + 1 if saved.exists() else 1, steps + 1):
            total = 1 + sum(map(receive, streams))
            assert total == nodes * (nodes + 1) // 2, total
            time.sleep(STEP_SECONDS)
            (folder / "step.new").write_text(str(step))
            os.replace(folder / "step.new", saved)
            for stream in streams:
                stream.write(f"{int(step < steps)}\n")
    else:
        is_more = True
        while is_more:
            streams[0].write(f"{rank + 1}\n")
            is_more = receive(streams[0])


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"a rank is lost: {error}")
