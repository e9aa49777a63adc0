"""The optimizers of moments: AdamW, AGD, Lion and Adafactor."""

import math
from ctypes import byref
from typing import Any, Optional, Tuple

import torch

from . import _optim_kernels as kernels
from ._library import CError
from ._optim_base import (
    MOMENTS, Group, Optimizer, OptimizerError, State, adamw_options, check_range, matrix_shape)


class AdamW(Optimizer):
    """AdamW. Its state_dict has the form of torch.optim.AdamW's, and either class loads the other's.

    `foreach`, `fused` and `capturable` have no effect; amsgrad is refused.
    """

    def __init__(self, params: Any, lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *,
                 maximize: bool = False, foreach: Optional[bool] = None, capturable: bool = False,
                 differentiable: bool = False, fused: Optional[bool] = None):
        super().__init__(params, dict(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
            maximize=maximize, foreach=foreach, capturable=capturable,
            differentiable=differentiable, fused=fused))

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        if group.get("amsgrad"):
            raise OptimizerError("AdamW has amsgrad=True: use torch.optim.AdamW for it")
        if not group.get("decoupled_weight_decay", True):
            raise OptimizerError("AdamW has the state of torch.optim.Adam, whose decay is part of the "
                                 "gradient: use torch.optim.Adam for it")

    def _options(self, group: Group) -> Any:
        return adamw_options(group)

    def _states(self, group: Group) -> Tuple[str, ...]:
        return MOMENTS

    def _update(self, parameter: Any, gradient: Any, state: State, group: Group, options: Any,
                update: Any, error: CError) -> None:
        self._elementwise("longhaul_adamw", parameter, gradient, state, MOMENTS, options, update,
                          error)


class AGD(Optimizer):
    """AGD (Yue et al., NeurIPS 2023). For transformers its authors use delta=1e-14 and a tenth of
    AdamW's rate."""

    def __init__(self, params: Any, lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999),
                 delta: float = 1e-5, weight_decay: float = 0.0, *, maximize: bool = False):
        super().__init__(params, dict(lr=lr, betas=betas, delta=delta, weight_decay=weight_decay,
                                      maximize=maximize))

    def _options(self, group: Group) -> Any:
        check_range(group, "betas", 0, 1)
        check_range(group, "delta", 0, math.inf, above=True)
        return kernels.sized(kernels.CAgd(), beta1=group["betas"][0], beta2=group["betas"][1],
                             delta=group["delta"])

    def _states(self, group: Group) -> Tuple[str, ...]:
        return MOMENTS

    def _update(self, parameter: Any, gradient: Any, state: State, group: Group, options: Any,
                update: Any, error: CError) -> None:
        self._elementwise("longhaul_agd", parameter, gradient, state, MOMENTS, options, update,
                          error)


class Lion(Optimizer):
    """Lion (Chen et al., NeurIPS 2023). Its authors use AdamW's rate divided by 3 to 10 and its decay
    times 3 to 10."""

    def __init__(self, params: Any, lr: float = 1e-4, betas: Tuple[float, float] = (0.9, 0.99),
                 weight_decay: float = 0.0, *, maximize: bool = False):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay,
                                      maximize=maximize))

    def _options(self, group: Group) -> Any:
        check_range(group, "betas", 0, 1)
        return kernels.sized(kernels.CLion(), beta1=group["betas"][0], beta2=group["betas"][1])

    def _states(self, group: Group) -> Tuple[str, ...]:
        return ("exp_avg",)

    def _update(self, parameter: Any, gradient: Any, state: State, group: Group, options: Any,
                update: Any, error: CError) -> None:
        self._elementwise("longhaul_lion", parameter, gradient, state, ("exp_avg",), options, update,
                          error)


class Adafactor(Optimizer):
    """Adafactor (Shazeer and Stern, ICML 2018). `lr` is relative to the size of the weights.

    A tensor of more than two dimensions is a matrix of its first dimension by the others.
    """

    def __init__(self, params: Any, lr: float = 1e-2, eps: float = 1e-30, minimum_scale: float = 1e-3,
                 clip_threshold: float = 1.0, weight_decay: float = 0.0, *, maximize: bool = False):
        super().__init__(params, dict(lr=lr, eps=eps, minimum_scale=minimum_scale,
                                      clip_threshold=clip_threshold, weight_decay=weight_decay,
                                      maximize=maximize))

    def _options(self, group: Group) -> Any:
        check_range(group, "eps", 0, math.inf, above=True)
        check_range(group, "minimum_scale", 0, math.inf)
        check_range(group, "clip_threshold", 0, math.inf, above=True)
        return kernels.sized(kernels.CAdafactor(), epsilon=group["eps"], least=group["minimum_scale"],
                             threshold=group["clip_threshold"])

    def _begin(self, parameter: Any, state: State, group: Group, options: Any, update: Any) -> None:
        rows, columns = matrix_shape(parameter)
        state["second_moment"] = torch.zeros(columns if rows == 1 else rows + columns,
                                             dtype=torch.float32)

    def _update(self, parameter: Any, gradient: Any, state: State, group: Group, options: Any,
                update: Any, error: CError) -> None:
        rows, columns = matrix_shape(parameter)
        kept = state["second_moment"]
        if kept.numel() != (columns if rows == 1 else rows + columns):
            raise OptimizerError(f"Adafactor: the state of a parameter of shape "
                                 f"{tuple(parameter.shape)} has another size: load the state_dict of "
                                 "the same model")
        kernels.raise_unless_ok(
            kernels.function("longhaul_adafactor")(
                byref(options), byref(update), rows, columns, parameter.data_ptr(),
                gradient.data_ptr(), kept.data_ptr(), error), error)
