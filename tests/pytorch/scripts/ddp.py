"""DistributedDataParallel with torch.save."""
import os

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

import toy


@record
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
    model = DistributedDataParallel(network)
    progress = toy.Progress(given)
    progress.start(first)
    for step in range(first, given.steps + 1):
        loss = toy.loss_of(model, step, dist.get_rank())
        optimizer.zero_grad()
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
