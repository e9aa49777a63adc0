"""torch.compile around DistributedDataParallel: inductor where a C++ compiler is, else aot_eager."""
import os
import shutil

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import toy


def main():
    given = toy.arguments()
    dist.init_process_group("gloo")
    network = toy.make_model()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    path, first = f"{given.folder}/state.pt", 1
    if os.path.exists(path):
        saved = torch.load(path)
        network.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"] + 1
    backend = "inductor" if shutil.which("g++") else "aot_eager"
    model = torch.compile(DistributedDataParallel(network), backend=backend)
    toy.loss_of(model, first, dist.get_rank()).backward()  # compiles before the first step
    progress = toy.Progress(given)
    progress.start(first)
    for step in range(first, given.steps + 1):
        optimizer.zero_grad()
        loss = toy.loss_of(model, step, dist.get_rank())
        loss.backward()
        optimizer.step()
        mean = progress.step(step, loss)
        if dist.get_rank() == 0 and step % given.checkpoint_every == 0:
            toy.save_file(path, {"model": network.state_dict(), "step": step,
                                 "optimizer": optimizer.state_dict()})
    progress.end(mean)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
