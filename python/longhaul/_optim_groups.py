"""GroupAdam and GroupAdaGrad, which drop whole rows of a matrix."""

import math
from ctypes import byref
from typing import Any, Dict, Tuple

import torch

from . import _optim_kernels as kernels
from ._library import CError
from ._optim_base import Group, Optimizer, OptimizerError, State, check_range, matrix_shape


class Grouped(Optimizer):
    """Sparse group lasso (Yue et al., ECML-PKDD 2021): rows that contribute little become 0.

    A row is all of a parameter that has one index of its first dimension; a vector is one row.
    """

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        if group["weight_decay"]:
            raise OptimizerError(f"{type(self).__name__} has weight_decay="
                                 f"{group['weight_decay']}, expected 0: use l2")

    def _penalties(self, group: Group) -> Dict[str, float]:
        for name in ("l1", "l2", "l21"):
            check_range(group, name, 0, math.inf)
        return {name: group[name] for name in ("l1", "l2", "l21")}

    def _call(self, name: str, parameter: Any, gradient: Any, state: State, states: Tuple[str, ...],
              options: Any, update: Any, error: CError) -> None:
        if any(state[each].shape != parameter.shape for each in states):
            raise OptimizerError(f"{type(self).__name__}: the state of a parameter of shape "
                                 f"{tuple(parameter.shape)} has another shape: load the state_dict "
                                 "of the same model")
        kernels.raise_unless_ok(
            kernels.function(name)(
                byref(options), byref(update), *matrix_shape(parameter), parameter.data_ptr(),
                gradient.data_ptr(), *(state[each].data_ptr() for each in states), None, error),
            error)


class GroupAdam(Grouped):
    """Group Adam. Without penalties it is Adam in the form w -= A m / (sqrt(v) + eps)."""

    _STATES = ("exp_avg", "exp_avg_sq", "offset")

    def __init__(self, params: Any, lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, l1: float = 0.0, l2: float = 0.0, l21: float = 0.0, *,
                 maximize: bool = False):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, l1=l1, l2=l2, l21=l21,
                                      weight_decay=0.0, maximize=maximize))

    def _options(self, group: Group) -> Any:
        check_range(group, "betas", 0, 1)
        check_range(group, "eps", 0, math.inf, above=True)
        return kernels.sized(kernels.CGroupAdam(), beta1=group["betas"][0], beta2=group["betas"][1],
                             epsilon=group["eps"], **self._penalties(group))

    def _states(self, group: Group) -> Tuple[str, ...]:
        return self._STATES

    def _update(self, parameter: Any, gradient: Any, state: State, group: Group, options: Any,
                update: Any, error: CError) -> None:
        self._call("longhaul_group_adam", parameter, gradient, state, self._STATES, options, update,
                   error)


class GroupAdaGrad(Grouped):
    """Group AdaGrad, which is group FTRL-proximal. It has one rate for all steps: its state depends
    on the rate, so a scheduler that changes the rate is refused."""

    _STATES = ("sum", "offset")

    def __init__(self, params: Any, lr: float = 1e-2, power: float = 0.5,
                 initial_accumulator_value: float = 0.1, l1: float = 0.0, l2: float = 0.0,
                 l21: float = 0.0, *, maximize: bool = False):
        super().__init__(params, dict(
            lr=lr, power=power, initial_accumulator_value=initial_accumulator_value, l1=l1, l2=l2,
            l21=l21, weight_decay=0.0, maximize=maximize))

    def _options(self, group: Group) -> Any:
        check_range(group, "lr", 0, math.inf, above=True)
        check_range(group, "power", 0, 1 + 1e-15, above=True)
        check_range(group, "initial_accumulator_value", 0, math.inf, above=True)
        return kernels.sized(kernels.CGroupAdaGrad(), power=group["power"],
                             initial=group["initial_accumulator_value"], **self._penalties(group))

    def _begin(self, parameter: Any, state: State, group: Group, options: Any, update: Any) -> None:
        kept = [torch.zeros_like(parameter) for _ in self._STATES]
        error = CError()
        kernels.raise_unless_ok(
            kernels.function("longhaul_group_adagrad_begin")(
                byref(options), byref(update), parameter.numel(), parameter.data_ptr(),
                *(each.data_ptr() for each in kept), error), error)
        state.update(zip(self._STATES, kept))
        state["rate"] = float(group["lr"])

    def _update(self, parameter: Any, gradient: Any, state: State, group: Group, options: Any,
                update: Any, error: CError) -> None:
        if state["rate"] != update.rate:
            raise OptimizerError(f"GroupAdaGrad has lr={update.rate:g}, but began with "
                                 f"{state['rate']:g}: keep one rate for all steps, or use GroupAdam")
        self._call("longhaul_group_adagrad", parameter, gradient, state, self._STATES, options, update,
                   error)
