"""Longhaul's optimizers for PyTorch, for f32 parameters on the CPU.

    from longhaul import optim
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)

They are used like those of torch.optim: parameter groups, schedulers, closures, state_dict. Each
parameter is updated in place by one call of liblonghaul.so, which releases the interpreter's lock.
docs/optimizers.md describes the classes, their defaults and limits. Read first: _optim_base.py.
"""

from ._optim_base import OptimizerError
from ._optim_moments import AGD, Adafactor, AdamW, Lion
from ._optim_groups import GroupAdaGrad, GroupAdam
from ._optim_muon import Muon, hidden_matrices
from ._optim_sharpness import SAM, WSAM

__all__ = ["AGD", "Adafactor", "AdamW", "GroupAdaGrad", "GroupAdam", "Lion", "Muon", "OptimizerError",
           "SAM", "WSAM", "hidden_matrices"]
