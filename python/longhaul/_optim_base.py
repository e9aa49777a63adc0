"""What the optimizers of longhaul.optim share: their checks, their steps and the calls of kernels.

A subclass checks its options in _options, and updates a parameter in _update.
"""

import math
from ctypes import byref
from typing import Any, Callable, Dict, Optional, Tuple

import torch

from . import _optim_kernels as kernels
from ._library import INVALID_ARGUMENT, CError, LonghaulError

Group = Dict[str, Any]
State = Dict[str, Any]
Closure = Callable[[], Any]


class OptimizerError(LonghaulError, ValueError):
    """A parameter, gradient, state or option that an optimizer cannot use."""

    def __init__(self, message: str):
        LonghaulError.__init__(self, INVALID_ARGUMENT, message)


def problem_of(tensor: Any) -> str:
    """Why the kernels cannot use a tensor, or ""."""
    if tensor.layout is not torch.strided:
        return f"is {tensor.layout}: use dense tensors (sparse=False in torch.nn.Embedding)"
    if tensor.device.type != "cpu":
        return f"is on {tensor.device}: move it to the CPU, or use torch.optim for it"
    if tensor.dtype is not torch.float32:
        return (f"has dtype {tensor.dtype}: convert it to torch.float32, or use torch.optim for it")
    if not tensor.is_contiguous():
        return f"has strides {tuple(tensor.stride())}: make it contiguous with .contiguous()"
    return ""


def matrix_shape(parameter: Any) -> Tuple[int, int]:
    """Rows and columns: a vector is one row; other dimensions than the first one are columns."""
    rows = parameter.shape[0] if parameter.dim() > 1 else 1
    return rows, parameter.numel() // rows


class Optimizer(torch.optim.Optimizer):
    """Checks parameters, counts steps and calls _update for each parameter that has a gradient."""

    def __init__(self, params: Any, defaults: Group):
        super().__init__(params, defaults)

    def add_param_group(self, param_group: Group) -> None:
        super().add_param_group(param_group)
        added = self.param_groups[-1]
        try:
            for index, parameter in enumerate(added["params"]):
                self._check(parameter, "", len(self.param_groups) - 1, index)
            self._check_group(added)
        except OptimizerError:
            del self.param_groups[-1]
            raise

    def _check_group(self, group: Group) -> None:
        """Raises OptimizerError for options that no step could use."""
        name = type(self).__name__
        if group.get("differentiable"):
            raise OptimizerError(f"{name} has differentiable=True: use torch.optim to differentiate "
                                 "through a step")
        self._options(group)
        for key in ("lr", "weight_decay"):
            if not 0 <= float(group[key]) < math.inf:
                raise OptimizerError(f"{name} has {key}={group[key]}, expected a finite number of at "
                                     "least 0")

    def _name(self, group: int, index: int) -> str:
        names = self.param_groups[group].get("param_names")
        shape = tuple(self.param_groups[group]["params"][index].shape)
        if names:
            return f"{names[index]} with shape {shape}"
        return f"{index} of group {group} with shape {shape}"

    def _check(self, tensor: Any, what: str, group: int, index: int) -> None:
        problem = problem_of(tensor)
        if problem:
            raise OptimizerError(f"{type(self).__name__}: {what}parameter {self._name(group, index)} "
                                 f"{problem}")

    def step(self, closure: Optional[Closure] = None) -> Any:
        """Does one step; returns the loss of the closure, which is called once, before it."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            for number, group in enumerate(self.param_groups):
                self._step_group(number, group)
        return loss

    def _step_group(self, number: int, group: Group) -> None:
        self._check_group(group)
        options = self._options(group)
        update: Any = kernels.sized(
            kernels.CUpdate(), rate=float(group["lr"]), decay=float(group["weight_decay"]),
            scale=-1.0 if group["maximize"] else 1.0)
        error = CError()
        for index, parameter in enumerate(group["params"]):
            gradient = parameter.grad
            if gradient is None or parameter.numel() == 0:
                continue
            self._check(parameter, "", number, index)
            self._check(gradient, "the gradient of ", number, index)
            state = self.state[parameter]
            update.number = step = int(state.get("step", 0)) + 1
            if not state:
                fresh: State = {"step": torch.tensor(0.0, dtype=torch.float32)}
                self._begin(parameter, fresh, group, options, update)
                state.update(fresh)
            for name, value in state.items():
                if name != "step" and isinstance(value, torch.Tensor):
                    self._check(value, f"the state {name} of ", number, index)
            self._update(parameter, gradient, state, group, options, update, error)
            if isinstance(state["step"], torch.Tensor):
                state["step"].fill_(step)
            else:  # loaded from a state_dict of another form
                state["step"] = torch.tensor(float(step), dtype=torch.float32)

    def _options(self, group: Group) -> Any:
        """The struct of options; raises OptimizerError if one is out of range."""
        raise NotImplementedError

    def _begin(self, parameter: Any, state: State, group: Group, options: Any, update: Any) -> None:
        for name in self._states(group):
            state[name] = torch.zeros_like(parameter)

    def _states(self, group: Group) -> Tuple[str, ...]:
        return ()

    def _update(self, parameter: Any, gradient: Any, state: State, group: Group, options: Any,
                update: Any, error: CError) -> None:
        raise NotImplementedError

    def _elementwise(self, name: str, parameter: Any, gradient: Any, state: State,
                     states: Tuple[str, ...], options: Any, update: Any, error: CError) -> None:
        """Calls a kernel without rows and columns."""
        count = parameter.numel()
        pointers = [state[each].data_ptr() for each in states if state[each].numel() == count]
        if len(pointers) != len(states):
            raise OptimizerError(f"{type(self).__name__}: the state of a parameter of shape "
                                 f"{tuple(parameter.shape)} has another size: load the state_dict of "
                                 "the same model")
        kernels.raise_unless_ok(
            kernels.function(name)(byref(options), byref(update), count, parameter.data_ptr(),
                                   gradient.data_ptr(), *pointers, error), error)


def check_range(group: Group, name: str, least: float, below: float, *, above: bool = False) -> None:
    """Requires least <= group[name] < below, or least < group[name]; a pair is checked twice."""
    values = group[name] if isinstance(group[name], (tuple, list)) else (group[name],)
    for value in values:
        if not (least < value < below if above else least <= value < below):
            raise OptimizerError(f"{name} is {group[name]}, expected "
                                 f"{'more than' if above else 'at least'} {least:g} and less than "
                                 f"{below:g}")


MOMENTS = ("exp_avg", "exp_avg_sq")


def adamw_options(group: Group) -> Any:
    check_range(group, "betas", 0, 1)
    check_range(group, "eps", 0, math.inf)
    return kernels.sized(kernels.CAdamW(), beta1=group["betas"][0], beta2=group["betas"][1],
                         epsilon=group["eps"])
