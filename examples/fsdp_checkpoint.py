"""Training under fully_shard that continues in another number of processes: three lines for checkpoints.

    torchrun --nproc-per-node 2 examples/fsdp_checkpoint.py FOLDER --steps 10
    torchrun --nproc-per-node 3 examples/fsdp_checkpoint.py FOLDER --steps 20

Needs PyTorch 2.6 or later; PYTHONPATH=python, or the wheel of `pip wheel ./python`, brings the package.
"""

import argparse

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import longhaul


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.GELU(), torch.nn.Linear(10, 3))
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    data = torch.randn(64, 12, 6, generator=torch.Generator().manual_seed(7))

    def state():
        weights, moments = get_state_dict(model, optimizer)
        return {"model": weights, "optimizer": moments}

    saved = longhaul.load_checkpoint(arguments.folder, into=state(), together=True)
    if saved:
        set_state_dict(model, optimizer, model_state_dict=saved.state["model"],
                       optim_state_dict=saved.state["optimizer"])
    first = saved.step + 1 if saved else 1
    for step in range(first, arguments.steps + 1):
        optimizer.zero_grad()
        loss = model(data[step % len(data)]).square().mean()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            longhaul.save(arguments.folder, state(), step)
    if dist.get_rank() == 0:
        print(f"first step {first}, loss {loss.item():.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
