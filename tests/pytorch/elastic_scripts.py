"""Small scripts that use longhaul.elastic in the way that the first argument names.

usage (under longhaul run with 4 workers): elastic_scripts.py KIND
"""
import fcntl
import os
import signal
import sys
import termios
import threading
import time

import torch
import torch.distributed as dist
from longhaul import elastic
from torch.distributed.device_mesh import init_device_mesh


def show(group):
    print(f"rank {group.rank} of {group.world_size} is process {os.getpid()} from step "
          f"{group.attempt}", flush=True)


def wait_for_death():
    print("ready", flush=True)
    time.sleep(600)


def unread(group):
    """Data arrives at rank 0 for a receive that is over, so Gloo reads no more from rank 1."""
    show(group)
    data = torch.zeros(1)
    if group.attempt > 1:
        dist.barrier()
        return
    if group.rank == 0:
        dist.irecv(data, src=1)
    dist.barrier()
    if group.rank == 1:
        dist.send(data, dst=0)
        wait_for_death()
    dist.recv(data, src=1, tag=2)


def unread_at_the_end(group):
    """As unread, for a collective that is under way when rank 0 destroys its groups."""
    show(group)
    data = torch.zeros(1)
    pair = dist.new_group([0, 1])
    if group.attempt > 1:
        dist.barrier()
        return
    if group.rank == 0:
        dist.irecv(data, src=1, group=pair)
    dist.barrier()
    if group.rank == 1:
        dist.send(data, dst=0, group=pair)
        wait_for_death()
    if group.rank == 0:
        dist.all_reduce(torch.zeros(1), group=pair, async_op=True)
    dist.recv(data, src=1)


def crossed(group):
    """Ranks 0 and 2 wait for each other in two subgroups, and none of them for the lost rank."""
    show(group)
    subgroups = [dist.new_group([0, 2]) for _ in range(2)]
    if group.attempt > 1:
        dist.barrier()
        return
    if group.rank == 1:
        wait_for_death()
    elif group.rank == 3:
        dist.recv(torch.zeros(1), src=1)
    else:
        dist.all_reduce(torch.zeros(1), group=subgroups[group.rank // 2])


def unsent(group):
    """Rank 0 has begun to send a message that the lost rank does not read."""
    show(group)
    if group.attempt > 1:
        dist.barrier()
        return
    data = torch.zeros(1 << 24)  # more than a connection buffers
    if group.rank == 1:
        receive = dist.irecv(data, src=0)
        dist.barrier()
        dist.recv(torch.zeros(1), src=3)
        os.kill(os.getpid(), signal.SIGSTOP)
        receive.wait()
    dist.barrier()
    if group.rank == 3:
        dist.send(torch.zeros(1), dst=1)
    elif group.rank == 0:
        threading.Thread(target=report_unsent, daemon=True).start()
        time.sleep(1)  # until rank 1 is stopped
        dist.send(data, dst=1)
    dist.recv(torch.zeros(1), src=1)


def report_unsent():
    """Prints "ready" once a connection of this process holds data that it cannot send."""
    while True:
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            try:
                queued = fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4))
            except OSError:  # not a connection
                continue
            if int.from_bytes(queued, sys.byteorder) > 100_000:
                print("ready", flush=True)
                return
        time.sleep(0.05)


def tensor_parallel(group):
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, RowwiseParallel, parallelize_module)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
    group.synchronize(elastic.Progress(), model)


def sharded(mesh):
    from torch.distributed.fsdp import fully_shard
    model = torch.nn.Linear(8, 8)
    fully_shard(model, mesh=mesh)
    return model


def part_of_the_ranks(group):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    group.synchronize(elastic.Progress(), sharded(mesh["shard"]))


def compiled(group):
    model = sharded(init_device_mesh("cpu", (4,)))
    model.compile(backend="eager")
    group.synchronize(elastic.Progress(), model)


def whole_snapshot(group):
    group.synchronize(elastic.Progress(), torch.nn.Linear(2, 2))
    group.snapshot()


kept = []


def old_model(group):
    show(group)
    if not kept:
        kept.append(sharded(init_device_mesh("cpu", (4,))))
    group.synchronize(elastic.Progress(), kept[0])
    if group.rank == 1 and group.attempt == 1:
        wait_for_death()
    dist.barrier()


elastic.run(globals()[sys.argv[1]])
