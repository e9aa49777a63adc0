"""Lightning's Trainer with its own checkpoints and a StatefulDataLoader."""
import glob
import os
import time

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torchdata.stateful_dataloader import StatefulDataLoader

import toy


class Samples(torch.utils.data.Dataset):
    """One item is the batch of one step of this rank."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return toy.batch(index, int(os.environ["RANK"]))


class Module(lightning.LightningModule):
    def __init__(self, step_time):
        super().__init__()
        self.model = toy.make_model()
        self.step_time = step_time
        self.last = None

    def training_step(self, item, number):
        time.sleep(self.step_time)
        inputs, targets = item
        loss = torch.nn.functional.mse_loss(self.model(inputs), targets)
        self.last = loss.detach()
        return loss

    def on_train_start(self):
        if self.global_rank == 0:
            print(f"first step {self.trainer.global_step + 1} of {self.trainer.world_size} ranks",
                  flush=True)

    def on_train_batch_end(self, outputs, item, number):
        if self.global_rank == 0:
            print(f"step {self.trainer.global_step} loss {self.last.item():.6f}", flush=True)

    def on_train_end(self):
        mean = self.all_gather(self.last).mean()
        if self.global_rank == 0:
            print(f"final loss {mean.item().hex()}", flush=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def main():
    given = toy.arguments()
    trainer = lightning.Trainer(
        accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        num_nodes=int(os.environ["GROUP_WORLD_SIZE"]), strategy="ddp", max_steps=given.steps,
        use_distributed_sampler=False, logger=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[ModelCheckpoint(given.folder, filename="{step}", save_top_k=-1,
                                   every_n_train_steps=given.checkpoint_every)])
    saved = sorted(glob.glob(f"{given.folder}/step=*.ckpt"),
                   key=lambda path: int(path.rsplit("=", 1)[1][:-len(".ckpt")]))
    # Lightning saves and loads the position of a stateful loader; a plain one would start again.
    loader = StatefulDataLoader(Samples(), batch_size=None)
    trainer.fit(Module(given.step_time), loader, ckpt_path=saved[-1] if saved else None)


if __name__ == "__main__":
    main()
