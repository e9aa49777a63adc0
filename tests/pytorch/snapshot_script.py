"""FSDP2 with snapshots of objects: prints a fingerprint of the whole state, saved and restored.

usage (under longhaul run): snapshot_script.py STEPS STEP_TIME
"""
import hashlib
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import longhaul


def fingerprint(model, optimizer, scheduler):
    """The same for the same state, in any number of ranks."""
    digest = hashlib.sha256()
    tensors = list(model.parameters())
    for parameter in model.parameters():
        tensors += optimizer.state[parameter].values()
    for tensor in tensors:
        whole = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
        digest.update(whole.detach().numpy().tobytes())
    digest.update(repr((scheduler.last_epoch, optimizer.param_groups[0]["lr"])).encode())
    return digest.hexdigest()[:16]


def main():
    steps, step_time = int(sys.argv[1]), float(sys.argv[2])
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    torch.manual_seed(world)  # other weights than those of the snapshot
    model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.GELU(), torch.nn.Linear(10, 3))
    fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    state = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    saved = longhaul.restore(into=state)
    if saved:
        mark = fingerprint(model, optimizer, scheduler)
        if dist.get_rank() == 0:
            print(f"restored step {saved.step} in {world} ranks: {mark}", flush=True)
    for step in range(saved.step + 1 if saved else 1, steps + 1):
        rows = torch.randn(12, 6, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()
        scheduler.step()
        time.sleep(step_time)
        if step % 4 == 0:
            mark = fingerprint(model, optimizer, scheduler)
            longhaul.snapshot(state, step)
            if dist.get_rank() == 0:
                print(f"snapshot of step {step} in {world} ranks: {mark}", flush=True)
        longhaul.report(step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
