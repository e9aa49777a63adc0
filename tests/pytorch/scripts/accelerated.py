"""Accelerate with its own save_state and load_state."""
import glob
import os

import torch
import torch.distributed as dist
from accelerate import Accelerator

import toy


def main():
    given = toy.arguments()
    accelerator = Accelerator(cpu=True)
    network = toy.make_model()
    model, optimizer = accelerator.prepare(network,
                                           torch.optim.AdamW(network.parameters(), lr=1e-2))
    saved = sorted(glob.glob(f"{given.folder}/step-*/complete"))
    first = 1
    if saved:
        folder = os.path.dirname(saved[-1])
        accelerator.load_state(folder)
        first = int(folder.rsplit("-", 1)[1]) + 1
    progress = toy.Progress(given)
    progress.start(first)
    for step in range(first, given.steps + 1):
        loss = toy.loss_of(model, step, accelerator.process_index)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        mean = progress.step(step, loss)
        if step % given.checkpoint_every == 0:
            folder = f"{given.folder}/step-{step:06d}"
            accelerator.save_state(folder)
            accelerator.wait_for_everyone()
            if accelerator.is_main_process:
                open(f"{folder}/complete", "w").close()
    progress.end(mean)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
