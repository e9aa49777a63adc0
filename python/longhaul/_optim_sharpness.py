"""SAM and WSAM, which compute two gradients a step, around another optimizer."""

import math
from ctypes import byref
from typing import Any, List, Optional, Tuple

import torch

from . import _optim_kernels as kernels
from ._library import CError
from ._optim_base import Closure, Group, Optimizer, OptimizerError, check_range


class WSAM(torch.optim.Optimizer):
    """WSAM (Yue et al., KDD 2023) around an optimizer of longhaul.optim.

    step(closure) calls the closure twice: at the weights, and at weights moved by rho in the
    direction of the gradient. The closure clears the gradients, computes the loss, calls backward
    and returns the loss. The loss at the weights is returned. With `decoupled`, the optimizer gets
    the first gradient, and rate * gamma / (1 - gamma) * (second - first) is subtracted after its
    step; without it, the optimizer gets the mix of both.
    """

    def __init__(self, optimizer: Any, rho: float = 0.05, gamma: float = 0.9, decoupled: bool = True):
        if not isinstance(optimizer, Optimizer):
            raise OptimizerError(f"{type(self).__name__} wraps {type(optimizer).__name__}, expected "
                                 "an optimizer of longhaul.optim")
        check_range({"rho": rho}, "rho", 0, math.inf)
        check_range({"gamma": gamma}, "gamma", 0, 1)
        self.optimizer = optimizer
        self.decoupled = decoupled
        self._sharpness = kernels.sized(kernels.CSharpness(), radius=rho, gamma=gamma)
        super().__init__(optimizer.param_groups, {})
        self._share()

    def _share(self) -> None:
        """Both optimizers have the same groups and states, so that schedulers change both."""
        self.param_groups = self.optimizer.param_groups
        self.state = self.optimizer.state
        self.defaults = self.optimizer.defaults

    def add_param_group(self, param_group: Group) -> None:
        if self.__dict__.get("param_groups") is self.optimizer.param_groups:
            self.optimizer.add_param_group(param_group)
        else:  # called by the constructor of Optimizer, with groups that the optimizer has
            self.param_groups.append(param_group)

    def state_dict(self) -> Any:
        return self.optimizer.state_dict()

    def load_state_dict(self, state_dict: Any) -> None:
        self.optimizer.load_state_dict(state_dict)
        self._share()

    def __getstate__(self) -> Any:
        raise OptimizerError(f"{type(self).__name__} cannot be pickled: save its state_dict()")

    def _call(self, name: str, *arguments: Any) -> None:
        error = CError()
        kernels.raise_unless_ok(
            kernels.function(name)(byref(self._sharpness), *arguments, error), error)

    def _gradients(self) -> List[Tuple[Any, Any, float]]:
        """Each parameter that has a gradient, with it and its rate, after the checks."""
        found = []
        for number, group in enumerate(self.param_groups):
            if group["maximize"]:
                raise OptimizerError(f"{type(self).__name__} has maximize=True: negate the loss")
            for index, parameter in enumerate(group["params"]):
                if parameter.grad is not None and parameter.numel() > 0:
                    for tensor, what in ((parameter, ""), (parameter.grad, "the gradient of ")):
                        self.optimizer._check(tensor, what, number, index)
                    found.append((parameter, parameter.grad, float(group["lr"])))
        return found

    def step(self, closure: Optional[Closure] = None) -> Any:
        """Does one step with two gradients; returns the first loss. Requires a closure."""
        name = type(self).__name__
        if closure is None:
            raise OptimizerError(f"{name} computes the gradient twice: call step(closure) with a "
                                 "closure that clears the gradients, computes the loss and calls "
                                 "backward()")
        with torch.enable_grad():
            loss = closure()
        with torch.no_grad():
            # The closure may clear gradients in place, so the first ones are copied.
            first = [(parameter, gradient.clone(), rate)
                     for parameter, gradient, rate in self._gradients()]
            norm = math.sqrt(sum(float(torch.linalg.vector_norm(gradient, dtype=torch.float64)) ** 2
                                 for _, gradient, _ in first))
            kept = [parameter.clone() for parameter, _, _ in first]
            try:
                for (parameter, gradient, _), weights in zip(first, kept):
                    self._call("longhaul_sharpness_perturb", norm, weights.numel(),
                               weights.data_ptr(), gradient.data_ptr(), parameter.data_ptr())
                with torch.enable_grad():
                    closure()
            finally:
                for (parameter, _, _), weights in zip(first, kept):
                    parameter.copy_(weights)
            second = self._gradients()
            if [id(parameter) for parameter, _, _ in first] != [id(each[0]) for each in second]:
                raise OptimizerError(f"{name}: the second call of the closure gave gradients to other "
                                     "parameters than the first: use the same parameters in both")
            moved = [gradient for _, gradient, _ in second]
            self._apply(first, moved)
        return loss

    def _apply(self, first: List[Tuple[Any, Any, float]], moved: List[Any]) -> None:
        for (parameter, gradient, _), other in zip(first, moved):
            if not self.decoupled:
                self._call("longhaul_sharpness_mix", gradient.numel(), gradient.data_ptr(),
                           other.data_ptr())
            parameter.grad = gradient
        self.optimizer.step()
        if self.decoupled:
            for (parameter, gradient, rate), other in zip(first, moved):
                self._call("longhaul_sharpness_correct", rate, gradient.numel(),
                           parameter.data_ptr(), gradient.data_ptr(), other.data_ptr())


class SAM(WSAM):
    """SAM (Foret et al., ICLR 2021) around an optimizer of longhaul.optim: it gets the second gradient."""

    def __init__(self, optimizer: Any, rho: float = 0.05):
        super().__init__(optimizer, rho, gamma=0.5, decoupled=False)
