#!/usr/bin/env python3
"""A worker without PyTorch whose state shows exactly which samples it was trained on.

    longhaul run -- python3 bench/recovery/fault_worker.py --folder FOLDER --steps 1000

It is the worker of composed_faults.py, labelled_faults.py and tests/lab/scenario.py. The workers
exchange their gradients over TCP through rank 0, so that all of them wait if one stands still, as
in a collective.

A step consumes `--batch` samples. The samples of all steps are the permutations of the data set,
one for each epoch; each worker takes its part of a step. The gradient of a sample is a hash of it,
and the update is weights = weights * FACTOR + gradient in integers of 64 bits. The final weights
therefore depend on every sample and on the step that consumed it, and on nothing else: neither on
the number of workers nor on faults. expected_weights() computes them without a run.

Each worker appends a line for each step to a file of its own in FOLDER/records, at the optimizer
step: the step, the number of workers, and the samples that this worker read; at the end, the
weights. The files are named ATTEMPT.RANK.PID, and fault_records.py checks them. The worker
snapshots and restores its weights through the package longhaul.

With --times each worker writes FOLDER/members/ATTEMPT.RANK at its start, with its pid and the name
of its host, and rank 0 appends time, attempt and number of each step to FOLDER/times.

FOLDER/finish contains the number of the last step, once it exists. FOLDER/faults.json contains
faults that the workers bring about themselves (labelled_faults.py writes it), if there are any.
"""
import argparse
import json
import math
import os
import pathlib
import random
import signal
import socket
import struct
import sys
import time

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import longhaul  # noqa: E402

FACTOR = numpy.uint64(6364136223846793005)
WIDTH = 64  # integers in the weights
HEADER = struct.Struct("<QQ")  # whether a snapshot is due, and the last step or 0
RENDEZVOUS_S = 60


def mix(values):
    """Hashes 64-bit integers (the finalizer of SplitMix64)."""
    values = values + numpy.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return values ^ (values >> numpy.uint64(31))


def gradient(samples):
    """The sum of the samples' gradients, in integers that wrap around."""
    rows = numpy.asarray(samples, dtype=numpy.uint64)[:, None] * numpy.uint64(WIDTH)
    return mix(rows + numpy.arange(WIDTH, dtype=numpy.uint64)).sum(axis=0, dtype=numpy.uint64)


class Data:
    """The order of the samples: a permutation for each epoch, drawn from the seed."""

    def __init__(self, samples, batch, seed):
        self.samples, self.batch, self.seed = samples, batch, seed
        self.epoch, self.order = -1, []

    def at(self, position):
        epoch, place = divmod(position, self.samples)
        if epoch != self.epoch:
            self.epoch, self.order = epoch, list(range(self.samples))
            random.Random(f"{self.seed}/{epoch}").shuffle(self.order)
        return self.order[place]

    def of(self, step, rank=0, ranks=1):
        """The samples of a worker at a step; steps count from 1."""
        first = (step - 1) * self.batch
        return [self.at(first + i)
                for i in range(self.batch * rank // ranks, self.batch * (rank + 1) // ranks)]


def expected_weights(data, steps):
    """The weights after so many steps without any fault, computed by one process."""
    weights = numpy.zeros(WIDTH, dtype=numpy.uint64)
    for step in range(1, steps + 1):
        weights = weights * FACTOR + gradient(data.of(step))
    return weights


class Gang:
    """The workers of an attempt: sums over all of them, through rank 0."""

    def __init__(self, folder, attempt, rank, ranks):
        self.rank, self.peers = rank, []
        host = os.environ.get("MASTER_ADDR", "127.0.0.1")  # of rank 0
        address = folder / f"rendezvous-{attempt}"
        if rank == 0:
            server = socket.create_server((host, 0), backlog=64)
            part = address.with_suffix(f".{os.getpid()}")
            part.write_text(str(server.getsockname()[1]))
            part.rename(address)
            server.settimeout(RENDEZVOUS_S)
            for _ in range(ranks - 1):
                self.peers.append(self.prepare(server.accept()[0]))
            server.close()
        else:
            until = time.monotonic() + RENDEZVOUS_S
            while not address.exists():
                if time.monotonic() > until:
                    raise TimeoutError(f"worker 0 did not appear within {RENDEZVOUS_S} s")
                time.sleep(0.005)
            port = int(address.read_text())
            self.peers.append(self.prepare(socket.create_connection((host, port))))

    @staticmethod
    def prepare(peer):
        peer.settimeout(None)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return peer

    @staticmethod
    def receive(peer, size):
        data = bytearray()
        while len(data) < size:
            part = peer.recv(size - len(data))
            if not part:
                raise ConnectionError("another worker closed its connection")
            data += part
        return bytes(data)

    def all_reduce(self, due, last, values):
        """Returns whether a snapshot is due anywhere, rank 0's `last` and the sum of the values."""
        size = HEADER.size + values.nbytes
        if self.rank != 0:
            self.peers[0].sendall(HEADER.pack(due, 0) + values.tobytes())
            answer = self.receive(self.peers[0], size)
            due, last = HEADER.unpack_from(answer)
            return bool(due), last, numpy.frombuffer(answer, numpy.uint64, offset=HEADER.size)
        total = values.copy()
        for peer in self.peers:
            message = self.receive(peer, size)
            due = due or bool(HEADER.unpack_from(message)[0])
            total += numpy.frombuffer(message, numpy.uint64, offset=HEADER.size)
        for peer in self.peers:
            peer.sendall(HEADER.pack(due, last) + total.tobytes())
        return due, last, total


class Times:
    """What an observer of the run needs; see --times."""

    def __init__(self, folder, attempt, rank):
        members = folder / "members"
        members.mkdir(exist_ok=True)
        part = members / f"{attempt}.{rank}.part"
        part.write_text(f"{os.getpid()} {socket.gethostname()}\n")
        part.rename(members / f"{attempt}.{rank}")
        self.attempt = attempt
        self.file = rank == 0 and os.open(folder / "times",
                                          os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, step):
        if self.file:
            os.write(self.file, f"{time.time()!r} {self.attempt} {step}\n".encode())


class Recorder:
    """An append-only file of this process. A line that a kill cuts short does not count."""

    def __init__(self, folder, attempt, rank):
        folder = folder / "records"
        folder.mkdir(exist_ok=True)
        self.file = os.open(folder / f"{attempt}.{rank}.{os.getpid()}",
                            os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, step, ranks, samples):
        os.write(self.file, f"{step} {ranks} {' '.join(map(str, samples))};\n".encode())

    def write_end(self, step, weights):
        os.write(self.file, f"end {step} {weights.tobytes().hex()};\n".encode())


def wait_in_user_code():
    time.sleep(1e9)


class Misbehaviour:
    """The faults that this worker brings about, from FOLDER/faults.json: a list of objects with
    `id`, `kind`, `step`, and `rank` or `node`. Each happens once, and FOLDER/injected/ID then
    contains the time; those of a node happen to each worker there, again and again, and so do
    those with `always`, at their step.
    """

    def __init__(self, folder, rank):
        path = folder / "faults.json"
        self.injected = folder / "injected"
        self.slow_until, self.factor = 0, 1.0
        socket_path = os.environ.get("LONGHAUL_AGENT_SOCKET", "")
        faults = json.loads(path.read_text()) if path.exists() else []
        self.faults = [fault for fault in faults if fault.get("rank") == rank or
                       "node" in fault and f"/{fault['node']}/" in socket_path]

    def is_new(self, fault):
        """Marks the fault as injected. Returns whether it was not before."""
        try:
            with open(self.injected / fault["id"], "x") as file:
                file.write(repr(time.time()))
            return True
        except FileExistsError:
            return False

    def at(self, step):
        """Brings about what is due at this step; returns the loss to report, or None."""
        loss = None
        for fault in self.faults:
            marked = (self.injected / fault["id"]).exists()
            if "node" in fault and (marked or step >= fault["step"]):
                self.is_new(fault)
                raise RuntimeError("device 0: uncorrectable memory error")
            if step == fault["step"] and (self.is_new(fault) or fault.get("always")):
                loss = self.bring_about(fault, step) or loss
        return loss

    def bring_about(self, fault, step):
        kind = fault["kind"]
        if kind == "hang":
            wait_in_user_code()
        elif kind == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif kind == "error":
            raise ValueError("the record 17 of shard 3 has no label")
        elif kind == "slow":
            self.slow_until, self.factor = step + fault["steps"], fault["factor"]
        return math.nan if kind == "nan" else None

    def slowness(self, step):
        return self.factor if step < self.slow_until else 1.0


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--samples", type=int, default=3000, help="in the data set (3000)")
    parser.add_argument("--batch", type=int, default=15, help="samples of a step (15)")
    parser.add_argument("--seed", type=int, default=1, help="of the order of the samples (1)")
    parser.add_argument("--steps", type=int, default=0, help="0: until FOLDER/finish exists (0)")
    parser.add_argument("--step-time", type=float, default=0.01, help="of a step, seconds (0.01)")
    parser.add_argument("--times", action="store_true", help="write the times of steps")
    return parser.parse_args()


def train(arguments):
    folder = arguments.folder
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    attempt = int(os.environ["LONGHAUL_ATTEMPT"])
    data = Data(arguments.samples, arguments.batch, arguments.seed)
    weights = numpy.zeros(WIDTH, dtype=numpy.uint64)
    times = Times(folder, attempt, rank) if arguments.times else None
    gang = Gang(folder, attempt, rank, ranks)
    saved = longhaul.restore()
    step, last = 0, arguments.steps
    if saved:
        step, weights = saved.step, saved.state["weights"].view(numpy.uint64).copy()
    recorder, faults = Recorder(folder, attempt, rank), Misbehaviour(folder, rank)
    finish = folder / "finish"
    while last == 0 or step < last:
        step += 1
        loss = faults.at(step)
        samples = data.of(step, rank, ranks)
        time.sleep(arguments.step_time * faults.slowness(step))
        if rank == 0 and last == 0 and finish.exists():
            last = int(finish.read_text() or 0)
        due, last, total = gang.all_reduce(longhaul.due(step), last, gradient(samples))
        recorder.write(step, ranks, samples)
        if times:
            times.write(step)
        weights = weights * FACTOR + total
        if due:
            longhaul.snapshot({"weights": weights.view(numpy.int64)}, step)
        if loss is None:
            loss = 1.0 + 1.0 / step
        longhaul.report(step, loss=loss)
    recorder.write_end(step, weights)


if __name__ == "__main__":
    train(parse_arguments())
