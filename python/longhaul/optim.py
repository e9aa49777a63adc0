"""Longhaul's optimizers for PyTorch, for f32 parameters on the CPU.

    from longhaul import optim
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)

They are used like those of torch.optim: parameter groups, schedulers, closures, state_dict. Each
parameter is updated in place by one call of liblonghaul.so, which releases the interpreter's lock.
docs/optimizers.md describes the classes, their defaults and limits.
"""

import ctypes
import math
from ctypes import byref
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

import torch

from . import _optimizers as kernels
from ._library import INVALID_ARGUMENT, CError, LonghaulError

__all__ = ["AGD", "Adafactor", "AdamW", "GroupAdaGrad", "GroupAdam", "Lion", "Muon", "OptimizerError",
           "SAM", "WSAM", "hidden_matrices"]

Group = Dict[str, Any]
State = Dict[str, Any]
Closure = Callable[[], Any]


class OptimizerError(LonghaulError, ValueError):
    """A parameter, gradient, state or option that an optimizer cannot use."""

    def __init__(self, message: str):
        LonghaulError.__init__(self, INVALID_ARGUMENT, message)


def _problem(tensor: Any) -> str:
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


def _matrix(parameter: Any) -> Tuple[int, int]:
    """Rows and columns: a vector is one row; other dimensions than the first one are columns."""
    rows = parameter.shape[0] if parameter.dim() > 1 else 1
    return rows, parameter.numel() // rows


class _Optimizer(torch.optim.Optimizer):
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
        problem = _problem(tensor)
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


def _range(group: Group, name: str, least: float, below: float, *, above: bool = False) -> None:
    """Requires least <= group[name] < below, or least < group[name]; a pair is checked twice."""
    values = group[name] if isinstance(group[name], (tuple, list)) else (group[name],)
    for value in values:
        if not (least < value < below if above else least <= value < below):
            raise OptimizerError(f"{name} is {group[name]}, expected "
                                 f"{'more than' if above else 'at least'} {least:g} and less than "
                                 f"{below:g}")


_MOMENTS = ("exp_avg", "exp_avg_sq")


def _adamw_options(group: Group) -> Any:
    _range(group, "betas", 0, 1)
    _range(group, "eps", 0, math.inf)
    return kernels.sized(kernels.CAdamW(), beta1=group["betas"][0], beta2=group["betas"][1],
                         epsilon=group["eps"])


class AdamW(_Optimizer):
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
        return _adamw_options(group)

    def _states(self, group: Group) -> Tuple[str, ...]:
        return _MOMENTS

    def _update(self, parameter: Any, gradient: Any, state: State, group: Group, options: Any,
                update: Any, error: CError) -> None:
        self._elementwise("longhaul_adamw", parameter, gradient, state, _MOMENTS, options, update,
                          error)


class AGD(_Optimizer):
    """AGD (Yue et al., NeurIPS 2023). For transformers its authors use delta=1e-14 and a tenth of
    AdamW's rate."""

    def __init__(self, params: Any, lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999),
                 delta: float = 1e-5, weight_decay: float = 0.0, *, maximize: bool = False):
        super().__init__(params, dict(lr=lr, betas=betas, delta=delta, weight_decay=weight_decay,
                                      maximize=maximize))

    def _options(self, group: Group) -> Any:
        _range(group, "betas", 0, 1)
        _range(group, "delta", 0, math.inf, above=True)
        return kernels.sized(kernels.CAgd(), beta1=group["betas"][0], beta2=group["betas"][1],
                             delta=group["delta"])

    def _states(self, group: Group) -> Tuple[str, ...]:
        return _MOMENTS

    def _update(self, parameter: Any, gradient: Any, state: State, group: Group, options: Any,
                update: Any, error: CError) -> None:
        self._elementwise("longhaul_agd", parameter, gradient, state, _MOMENTS, options, update,
                          error)


class Lion(_Optimizer):
    """Lion (Chen et al., NeurIPS 2023). Its authors use AdamW's rate divided by 3 to 10 and its decay
    times 3 to 10."""

    def __init__(self, params: Any, lr: float = 1e-4, betas: Tuple[float, float] = (0.9, 0.99),
                 weight_decay: float = 0.0, *, maximize: bool = False):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay,
                                      maximize=maximize))

    def _options(self, group: Group) -> Any:
        _range(group, "betas", 0, 1)
        return kernels.sized(kernels.CLion(), beta1=group["betas"][0], beta2=group["betas"][1])

    def _states(self, group: Group) -> Tuple[str, ...]:
        return ("exp_avg",)

    def _update(self, parameter: Any, gradient: Any, state: State, group: Group, options: Any,
                update: Any, error: CError) -> None:
        self._elementwise("longhaul_lion", parameter, gradient, state, ("exp_avg",), options, update,
                          error)


class Adafactor(_Optimizer):
    """Adafactor (Shazeer and Stern, ICML 2018). `lr` is relative to the size of the weights.

    A tensor of more than two dimensions is a matrix of its first dimension by the others.
    """

    def __init__(self, params: Any, lr: float = 1e-2, eps: float = 1e-30, minimum_scale: float = 1e-3,
                 clip_threshold: float = 1.0, weight_decay: float = 0.0, *, maximize: bool = False):
        super().__init__(params, dict(lr=lr, eps=eps, minimum_scale=minimum_scale,
                                      clip_threshold=clip_threshold, weight_decay=weight_decay,
                                      maximize=maximize))

    def _options(self, group: Group) -> Any:
        _range(group, "eps", 0, math.inf, above=True)
        _range(group, "minimum_scale", 0, math.inf)
        _range(group, "clip_threshold", 0, math.inf, above=True)
        return kernels.sized(kernels.CAdafactor(), epsilon=group["eps"], least=group["minimum_scale"],
                             threshold=group["clip_threshold"])

    def _begin(self, parameter: Any, state: State, group: Group, options: Any, update: Any) -> None:
        rows, columns = _matrix(parameter)
        state["second_moment"] = torch.zeros(columns if rows == 1 else rows + columns,
                                             dtype=torch.float32)

    def _update(self, parameter: Any, gradient: Any, state: State, group: Group, options: Any,
                update: Any, error: CError) -> None:
        rows, columns = _matrix(parameter)
        kept = state["second_moment"]
        if kept.numel() != (columns if rows == 1 else rows + columns):
            raise OptimizerError(f"Adafactor: the state of a parameter of shape "
                                 f"{tuple(parameter.shape)} has another size: load the state_dict of "
                                 "the same model")
        kernels.raise_unless_ok(
            kernels.function("longhaul_adafactor")(
                byref(options), byref(update), rows, columns, parameter.data_ptr(),
                gradient.data_ptr(), kept.data_ptr(), error), error)


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


class Muon(_Optimizer):
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
            return _adamw_options(group)
        _range(group, "momentum", 0, 1)
        if group["adjust_lr_fn"] not in (None, "original", "match_rms_adamw"):
            raise OptimizerError(f'adjust_lr_fn is {group["adjust_lr_fn"]!r}, expected None, '
                                 '"original" or "match_rms_adamw"')
        return kernels.sized(kernels.CMuon(), momentum=group["momentum"],
                             like_adamw=int(group["adjust_lr_fn"] == "match_rms_adamw"))

    def _states(self, group: Group) -> Tuple[str, ...]:
        return ("momentum_buffer",) if group["use_muon"] else _MOMENTS

    def _update(self, parameter: Any, gradient: Any, state: State, group: Group, options: Any,
                update: Any, error: CError) -> None:
        if not group["use_muon"]:
            self._elementwise("longhaul_adamw", parameter, gradient, state, _MOMENTS, options, update,
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


class _Grouped(_Optimizer):
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
            _range(group, name, 0, math.inf)
        return {name: group[name] for name in ("l1", "l2", "l21")}

    def _call(self, name: str, parameter: Any, gradient: Any, state: State, states: Tuple[str, ...],
              options: Any, update: Any, error: CError) -> None:
        if any(state[each].shape != parameter.shape for each in states):
            raise OptimizerError(f"{type(self).__name__}: the state of a parameter of shape "
                                 f"{tuple(parameter.shape)} has another shape: load the state_dict "
                                 "of the same model")
        kernels.raise_unless_ok(
            kernels.function(name)(
                byref(options), byref(update), *_matrix(parameter), parameter.data_ptr(),
                gradient.data_ptr(), *(state[each].data_ptr() for each in states), None, error),
            error)


class GroupAdam(_Grouped):
    """Group Adam. Without penalties it is Adam in the form w -= A m / (sqrt(v) + eps)."""

    _STATES = ("exp_avg", "exp_avg_sq", "offset")

    def __init__(self, params: Any, lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, l1: float = 0.0, l2: float = 0.0, l21: float = 0.0, *,
                 maximize: bool = False):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, l1=l1, l2=l2, l21=l21,
                                      weight_decay=0.0, maximize=maximize))

    def _options(self, group: Group) -> Any:
        _range(group, "betas", 0, 1)
        _range(group, "eps", 0, math.inf, above=True)
        return kernels.sized(kernels.CGroupAdam(), beta1=group["betas"][0], beta2=group["betas"][1],
                             epsilon=group["eps"], **self._penalties(group))

    def _states(self, group: Group) -> Tuple[str, ...]:
        return self._STATES

    def _update(self, parameter: Any, gradient: Any, state: State, group: Group, options: Any,
                update: Any, error: CError) -> None:
        self._call("longhaul_group_adam", parameter, gradient, state, self._STATES, options, update,
                   error)


class GroupAdaGrad(_Grouped):
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
        _range(group, "lr", 0, math.inf, above=True)
        _range(group, "power", 0, 1 + 1e-15, above=True)
        _range(group, "initial_accumulator_value", 0, math.inf, above=True)
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


class WSAM(torch.optim.Optimizer):
    """WSAM (Yue et al., KDD 2023) around an optimizer of this module.

    step(closure) calls the closure twice: at the weights, and at weights moved by rho in the
    direction of the gradient. The closure clears the gradients, computes the loss, calls backward
    and returns the loss. The loss at the weights is returned. With `decoupled`, the optimizer gets
    the first gradient, and rate * gamma / (1 - gamma) * (second - first) is subtracted after its
    step; without it, the optimizer gets the mix of both.
    """

    def __init__(self, optimizer: Any, rho: float = 0.05, gamma: float = 0.9, decoupled: bool = True):
        if not isinstance(optimizer, _Optimizer):
            raise OptimizerError(f"{type(self).__name__} wraps {type(optimizer).__name__}, expected "
                                 "an optimizer of longhaul.optim")
        _range({"rho": rho}, "rho", 0, math.inf)
        _range({"gamma": gamma}, "gamma", 0, 1)
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
    """SAM (Foret et al., ICLR 2021) around an optimizer of this module: it gets the second gradient."""

    def __init__(self, optimizer: Any, rho: float = 0.05):
        super().__init__(optimizer, rho, gamma=0.5, decoupled=False)
