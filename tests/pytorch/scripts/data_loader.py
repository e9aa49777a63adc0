"""A DataLoader with worker processes and a DistributedSampler, continued in the middle of a pass."""
import itertools
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

import toy


class Rows(Dataset):
    def __len__(self):
        return 32 * toy.ROWS

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        row = torch.randn(toy.WIDTH, generator=generator)
        return row, row.sin().sum(dim=0, keepdim=True)


def batches(data, first):
    """The batches of this rank from step `first` on, over as many passes as are needed."""
    sampler = DistributedSampler(data, seed=3)
    loader = DataLoader(data, batch_size=toy.ROWS, sampler=sampler, num_workers=2)
    done = first - 1
    for number in itertools.count(done // len(loader)):
        sampler.set_epoch(number)
        yield from itertools.islice(loader, done % len(loader), None)
        done = 0


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
    steps = range(first, given.steps + 1)
    for step, (inputs, targets) in zip(steps, batches(Rows(), first)):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
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
