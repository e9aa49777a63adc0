"""DeepSpeed's engine (ZeRO stage 1) with its own save_checkpoint and load_checkpoint."""
import argparse

import deepspeed
import torch
import torch.distributed as dist

import toy

CONFIG = {
    "train_micro_batch_size_per_gpu": toy.ROWS,
    "zero_optimization": {"stage": 1},
    "zero_allow_untested_optimizer": True,  # DeepSpeed's own AdamW needs a compiler when it starts
}


def main():
    launcher = argparse.ArgumentParser(add_help=False)
    launcher.add_argument("--local_rank", help="given by DeepSpeed's launcher, and not by torchrun")
    _, words = launcher.parse_known_args()
    given = toy.arguments(words)
    # DeepSpeed compiles its own all-reduce for CPUs when it starts, which takes minutes.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("gloo")
    network = toy.make_model()
    engine, *_ = deepspeed.initialize(
        model=network, optimizer=torch.optim.AdamW(network.parameters(), lr=1e-2), config=CONFIG)
    folder, _ = engine.load_checkpoint(given.folder)
    first = engine.global_steps + 1 if folder else 1
    progress = toy.Progress(given)
    progress.start(first)
    for step in range(first, given.steps + 1):
        loss = toy.loss_of(engine, step, dist.get_rank())
        engine.backward(loss)
        engine.step()
        mean = progress.step(step, loss)
        if step % given.checkpoint_every == 0:
            engine.save_checkpoint(given.folder)
    progress.end(mean)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
