"""Muon, whose products of matrices are computed by PyTorch."""

import ctypes
from ctypes import byref
from typing import Any, Iterable, List, Optional, Tuple

import torch

from . import _optim_kernels as kernels
from ._library import CError
from ._optim_base import (
    MOMENTS, Group, Optimizer, OptimizerError, State, adamw_options, check_range)


def _view(address: int, rows: int, columns: int) -> Any:
    """A tensor on memory of the library."""
    memory = (ctypes.c_float * (rows * columns)).from_address(address)
    return torch.frombuffer(memory, dtype=torch.float32).view(rows, columns)


class _Products:
    """torch.mm as the library calls it. An exception fails the call and is raised after it."""

    def __init__(self) -> None:
        self.raised: Optional[BaseException] = None
        self.call = kernels.Product(self._multiply)

    def _multiply(self, _argument: Any, m: int, n: int, k: int, a: int, b: int, transpose_b: int,
                  out: int) -> int:
        try:
            second = _view(b, n, k).t() if transpose_b else _view(b, k, n)
            torch.mm(_view(a, m, k), second, out=_view(out, m, n))
        except BaseException as error:  # pylint: disable=broad-except
            self.raised = error
            return 1
        return 0


class Muon(Optimizer):
    """Muon (Jordan et al., 2024) for hidden matrices, and AdamW for groups with use_muon=False.

    `adjust_lr_fn` is as in torch.optim.Muon: "original" scales a matrix by
    sqrt(max(1, rows / columns)), "match_rms_adamw" by 0.2 sqrt(max(rows, columns)), for AdamW's rate
    and decay. hidden_matrices separates a model's parameters.
    """

    def __init__(self, params: Any, lr: float = 1e-3, weight_decay: float = 0.1,
                 momentum: float = 0.95, adjust_lr_fn: Optional[str] = None, *,
                 betas: Tuple[float, float] = (0.9, 0.95), eps: float = 1e-8, use_muon: bool = True,
                 maximize: bool = False):
        super().__init__(params, dict(
            lr=lr, weight_decay=weight_decay, momentum=momentum, adjust_lr_fn=adjust_lr_fn,
            betas=betas, eps=eps, use_muon=use_muon, maximize=maximize))

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        if not group["use_muon"]:
            return
        for parameter in group["params"]:
            if parameter.dim() != 2:
                raise OptimizerError(
                    f"Muon: a parameter of shape {tuple(parameter.shape)} is not a matrix: put it "
                    "into a group with use_muon=False, which AdamW updates")

    def _options(self, group: Group) -> Any:
        if not group["use_muon"]:
            return adamw_options(group)
        check_range(group, "momentum", 0, 1)
        if group["adjust_lr_fn"] not in (None, "original", "match_rms_adamw"):
            raise OptimizerError(f'adjust_lr_fn is {group["adjust_lr_fn"]!r}, expected None, '
                                 '"original" or "match_rms_adamw"')
        return kernels.sized(kernels.CMuon(), momentum=group["momentum"],
                             like_adamw=int(group["adjust_lr_fn"] == "match_rms_adamw"))

    def _states(self, group: Group) -> Tuple[str, ...]:
        return ("momentum_buffer",) if group["use_muon"] else MOMENTS

    def _update(self, parameter: Any, gradient: Any, state: State, group: Group, options: Any,
                update: Any, error: CError) -> None:
        if not group["use_muon"]:
            self._elementwise("longhaul_adamw", parameter, gradient, state, MOMENTS, options, update,
                              error)
            return
        momentum = state["momentum_buffer"]
        if momentum.shape != parameter.shape:
            raise OptimizerError(f"Muon: the state of a parameter of shape {tuple(parameter.shape)} "
                                 "has another shape: load the state_dict of the same model")
        products = _Products()
        code = kernels.function("longhaul_muon")(
            byref(options), byref(update), *parameter.shape, parameter.data_ptr(),
            gradient.data_ptr(), momentum.data_ptr(), products.call, None, error)
        if products.raised is not None:
            raise products.raised
        kernels.raise_unless_ok(code, error)


def hidden_matrices(model: Any, output: Iterable[str] = ()) -> Tuple[List[Any], List[Any]]:
    """Separates the parameters of a model into those for Muon and the others, for AdamW.

    Hidden matrices are all parameters with two dimensions, without those of torch.nn.Embedding and
    of the modules that `output` names, such as ("lm_head",). A shared parameter is in one list.
    """
    modules = dict(model.named_modules())
    for name in output:
        if name not in modules:
            raise OptimizerError(f"the model has no module {name}: name a module of named_modules()")
    excluded = {id(parameter) for name, module in modules.items()
                if name in set(output) or isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag))
                for parameter in module.parameters()}
    hidden: List[Any] = []
    others: List[Any] = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            inner = parameter.dim() == 2 and id(parameter) not in excluded
            (hidden if inner else others).append(parameter)
    return hidden, others
