"""A small DistributedDataParallel script as people write them for torchrun.

It knows nothing of who launches it: its place comes from the environment, a failure is told
through torchrun's @record, and after a restart it continues from its own checkpoint. All of these do
the same:

    longhaul run --nodes 2 --procs 2 -- python3 examples/ddp.py --checkpoint /tmp/ddp.pt
    longhaul run --nnodes 2 --nproc-per-node 2 examples/ddp.py --checkpoint /tmp/ddp.pt
    PYTHON_EXEC=/usr/bin/python3 torchrun -r 1 -t 1 --nproc_per_node 4 --max_restarts 3 \\
        examples/ddp.py --checkpoint /tmp/ddp.pt

Debian's torchrun 1.13 needs underscores, and the "-r 1 -t 1" to run at all. The model is a student
network that learns what a fixed random teacher computes. Samples depend only on seed, step and
rank, so a run with restarts ends with the same weights as one without.
"""

import argparse
import hashlib
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step-time", type=float, default=0.0, help="least seconds a step takes")
    parser.add_argument("--batch", type=int, default=32, help="samples a rank and step")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint", help="file to save to and to continue from")
    parser.add_argument("--checkpoint-every", type=int, default=10, metavar="STEPS")
    return parser.parse_args()


def make_network(inputs, hidden, seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 1)
    )


def samples(arguments, teacher, step, rank):
    """The inputs and targets of one rank at one step."""
    generator = torch.Generator().manual_seed((arguments.seed << 48) + (step << 16) + rank)
    inputs = torch.randn(arguments.batch, teacher[0].in_features, generator=generator)
    with torch.no_grad():
        return inputs, teacher(inputs)


def load(path, model, optimizer):
    """The step that the checkpoint was saved after; 0 without one."""
    if not path or not os.path.exists(path):
        return 0
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    return checkpoint["step"]


def save(path, model, optimizer, step):
    """Replaces the checkpoint in one go, so that a kill at any moment leaves a whole one."""
    state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    with open(path + ".new", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def fingerprint(model):
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(bytes(parameter.detach().contiguous().view(torch.uint8).flatten().tolist()))
    return digest.hexdigest()[:16]


@record
def main():
    arguments = parse_arguments()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()

    teacher = make_network(16, 32, arguments.seed + 1_000_000)
    student = make_network(16, arguments.hidden, arguments.seed)
    optimizer = torch.optim.SGD(student.parameters(), lr=arguments.learning_rate, momentum=0.9)
    # Before DDP's first collective, so that no rank can save while another still reads.
    first = load(arguments.checkpoint, student, optimizer) + 1
    # Without find_unused_parameters DDP lays out its buckets anew after the first step, and gradients
    # are summed in another order: a restarted run would differ in the last bits.
    model = DistributedDataParallel(student, find_unused_parameters=True)
    if rank == 0:
        restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        print(f"{world} ranks, restart {restarts}, first step {first}", flush=True)

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
        if rank == 0:
            print(f"step {step} loss {mean_loss.item():.6f}", flush=True)
            due = step % arguments.checkpoint_every == 0 or step == arguments.steps
            if arguments.checkpoint and due:
                save(arguments.checkpoint, student, optimizer, step)

    if rank == 0:
        print(f"done after step {arguments.steps}, weights {fingerprint(student)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
