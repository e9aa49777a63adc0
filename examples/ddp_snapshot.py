"""examples/ddp.py with its own checkpoint file replaced by Longhaul's snapshots in memory.

    longhaul run --nodes 2 --procs 2 -- python3 examples/ddp_snapshot.py --steps 300

After a fault every rank continues from the newest state that all of them have: from its agent's
memory after the death of a worker, from disk after the loss of a node. Started in any other way it
trains without. PYTHONPATH=python, or the wheel of `pip wheel ./python`, brings the package.
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import longhaul
from ddp import fingerprint, make_network, samples


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step-time", type=float, default=0.0, help="least seconds a step takes")
    parser.add_argument("--batch", type=int, default=32, help="samples a rank and step")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()

    teacher = make_network(16, 32, arguments.seed + 1_000_000)
    student = make_network(16, arguments.hidden, arguments.seed)
    optimizer = torch.optim.AdamW(student.parameters(), lr=0.01)
    first = 1
    saved = longhaul.restore()
    if saved:
        student.load_state_dict(saved.state["model"])
        optimizer.load_state_dict(saved.state["optimizer"])
        first = saved.step + 1
    model = DistributedDataParallel(student, find_unused_parameters=True)
    if rank == 0:
        print(f"{world} ranks, first step {first}", flush=True)

    for step in range(first, arguments.steps + 1):
        began = time.monotonic()
        inputs, targets = samples(arguments, teacher, step, rank)
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean_loss = loss.detach() / world
        dist.all_reduce(mean_loss)
        time.sleep(max(0.0, arguments.step_time - (time.monotonic() - began)))
        if longhaul.due(step):
            state = {"model": student.state_dict(), "optimizer": optimizer.state_dict()}
            longhaul.snapshot(state, step)
        longhaul.report(step, loss=mean_loss.item(), tokens=arguments.batch * world)
        if rank == 0:
            print(f"step {step} loss {mean_loss.item():.6f}", flush=True)

    if rank == 0:
        print(f"done after step {arguments.steps}, weights {fingerprint(student)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
