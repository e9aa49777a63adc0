"""Training under fully_shard with workers that stay alive when another worker fails.

    longhaul run --nodes 2 --procs 2 -- python3 examples/fsdp_elastic.py --steps 1000
    longhaul run --nodes 2 --procs 2 -- python3 examples/fsdp_elastic.py --steps 1000 --replicas 2

`train` is called for each group and makes the model, its mesh and the optimizer; what is made once
in each process, here the teacher and the arguments, stays. With one replica (FSDP2), a failure
brings all ranks back to the newest snapshot. With more (HSDP), the other replicas have the lost
shard, and no step is lost. The final weights are the same bits as those of a run without failures.
PyTorch 2.6 or newer.
"""

import argparse
import hashlib
import os
import time

import torch
import torch.distributed as dist
from ddp import make_network, samples
from longhaul import elastic
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step-time", type=float, default=0.0, help="least seconds a step takes")
    parser.add_argument("--replicas", type=int, default=1, help="of the whole model")
    parser.add_argument("--batch", type=int, default=32, help="samples a rank and step")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def make_model(arguments, world):
    model = make_network(16, arguments.hidden, arguments.seed)
    if arguments.replicas == 1:
        mesh = init_device_mesh("cpu", (world,))
    else:
        mesh = init_device_mesh("cpu", (arguments.replicas, world // arguments.replicas),
                                mesh_dim_names=("replicate", "shard"))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def fingerprint(model):
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.full_tensor().detach().numpy().tobytes())
    return digest.hexdigest()[:16]


def main():
    arguments = parse_arguments()
    teacher = make_network(16, 32, arguments.seed + 1_000_000)
    progress = elastic.Progress()

    def train(group):
        model = make_model(arguments, group.world_size)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        group.synchronize(progress, model, optimizer)
        print(f"rank {group.rank} of {group.world_size} is process {os.getpid()} from step "
              f"{progress.step + 1}", flush=True)
        for step in range(progress.step + 1, arguments.steps + 1):
            began = time.monotonic()
            inputs, targets = samples(arguments, teacher, step, group.rank)
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            mean_loss = loss.detach() / group.world_size
            dist.all_reduce(mean_loss)
            # No collective between these two: the state and its number of steps belong together.
            optimizer.step()
            progress.step = step
            group.snapshot()  # when one is due
            time.sleep(max(0.0, arguments.step_time - (time.monotonic() - began)))
            if group.rank == 0:
                print(f"step {step} loss {mean_loss.item():.6f}", flush=True)
        weights = fingerprint(model)
        print(f"rank {group.rank} is done after step {arguments.steps}, weights {weights}",
              flush=True)

    elastic.run(train)


if __name__ == "__main__":
    main()
