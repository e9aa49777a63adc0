"""Hugging Face's Trainer with its own checkpoints."""
import os
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

import toy


class Text(torch.utils.data.Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(0, 64, (16,), generator=generator)
        return {"input_ids": tokens, "labels": tokens}


class Steps(TrainerCallback):
    def __init__(self, step_time):
        self.step_time = step_time

    def on_train_begin(self, arguments, state, control, **_):
        if state.is_world_process_zero:
            print(f"first step {state.global_step + 1} of {arguments.world_size} ranks", flush=True)

    def on_step_end(self, arguments, state, control, **_):
        time.sleep(self.step_time)
        if state.is_world_process_zero:
            print(f"step {state.global_step} loss 0", flush=True)


def main():
    given = toy.arguments()
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=2,
                                       n_head=2))
    trainer = Trainer(
        model, TrainingArguments(
            output_dir=given.folder, max_steps=given.steps, save_steps=given.checkpoint_every,
            per_device_train_batch_size=toy.ROWS, learning_rate=1e-3, use_cpu=True, seed=1,
            report_to=[], disable_tqdm=True, ddp_backend="gloo", logging_steps=1000),
        train_dataset=Text(), callbacks=[Steps(given.step_time)])
    trainer.train(resume_from_checkpoint=get_last_checkpoint(given.folder)
                  if os.path.isdir(given.folder) else None)
    model.eval()
    with torch.no_grad():
        tokens = torch.stack([Text()[index]["input_ids"] for index in range(toy.ROWS)])
        loss = model(input_ids=tokens, labels=tokens).loss
    if trainer.is_world_process_zero():
        print(f"final loss {loss.item().hex()}", flush=True)


if __name__ == "__main__":
    main()
