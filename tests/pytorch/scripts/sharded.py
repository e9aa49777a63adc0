"""torch.distributed.checkpoint for the scripts of this folder: one folder for each saved step."""
import copy
import glob
import os

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

try:
    from torch.distributed.fsdp import fully_shard
except ImportError:  # before PyTorch 2.6
    fully_shard = None

__all__ = ["Checkpoints", "fully_shard"]


class Checkpoints:
    def __init__(self, folder, model, optimizer):
        self.folder, self.model, self.optimizer = folder, model, optimizer
        self.pending = None
        # A thread of async_save runs collectives, which must not mix with those of the training.
        self.group = dist.new_group(backend="gloo")

    def state(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def load(self):
        """Loads the newest complete step; returns the first step to do."""
        steps = [int(os.path.dirname(path).rsplit("-", 1)[1])
                 for path in glob.glob(f"{self.folder}/step-*/.metadata")]
        if not steps:
            return 1
        state = self.state()
        dcp.load(state, checkpoint_id=f"{self.folder}/step-{max(steps)}")
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"],
                       optim_state_dict=state["optimizer"])
        return max(steps) + 1

    def save(self, step):
        dcp.save(self.state(), checkpoint_id=f"{self.folder}/step-{step}")

    def save_async(self, step):
        self.wait()
        # A copy, because async_save of PyTorch 2.4 saves tensors of the CPU while they change.
        self.pending = dcp.async_save(
            copy.deepcopy(self.state()), checkpoint_id=f"{self.folder}/step-{step}",
            process_group=self.group)

    def wait(self):
        if self.pending is not None:
            self.pending.result()
            self.pending = None
