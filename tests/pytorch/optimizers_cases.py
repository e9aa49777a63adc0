"""The cases of optimizers_test.py: each class against the same update written in float64, and its use.

usage: LONGHAUL_LIBRARY=... PYTHONPATH=python optimizers_cases.py
"""
import copy
import io
import math
import pickle
import unittest
import warnings

import torch
from longhaul import LonghaulError, optim

STEPS = 20


def noise(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def parameters(*shapes):
    return [torch.nn.Parameter(noise(seed, *shape)) for seed, shape in enumerate(shapes, 100)]


def set_gradients(params, step):
    for index, parameter in enumerate(params):
        parameter.grad = 0.1 * noise(1000 * step + index, *parameter.shape)


def rows_of(w):
    return w.reshape(w.shape[0] if w.dim() > 1 else 1, -1)


class AdamWRule:
    def __init__(self, w, lr=1e-2, betas=(0.9, 0.95), eps=1e-8, decay=0.1):
        self.lr, self.betas, self.eps, self.decay = lr, betas, eps, decay
        self.m, self.v = torch.zeros_like(w), torch.zeros_like(w)

    def step(self, w, g, t):
        b1, b2 = self.betas
        w = w * (1 - self.lr * self.decay)
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g * g
        return w - self.lr * (self.m / (1 - b1 ** t)) / ((self.v / (1 - b2 ** t)).sqrt() + self.eps)


class AgdRule:
    def __init__(self, w):
        self.m, self.b = torch.zeros_like(w), torch.zeros_like(w)

    def step(self, w, g, t):
        lr, b1, b2, delta, decay = 1e-2, 0.9, 0.999, 1e-5, 0.1
        before, self.m = self.m, b1 * self.m + (1 - b1) * g
        s = self.m / (1 - b1 ** t) - (before / (1 - b1 ** (t - 1)) if t > 1 else 0)
        self.b = b2 * self.b + (1 - b2) * s * s
        root = math.sqrt(1 - b2 ** t)
        return (w * (1 - lr * decay) - lr * root / (1 - b1 ** t) * self.m
                / self.b.sqrt().clamp(min=delta * root))


class LionRule:
    def __init__(self, w):
        self.m = torch.zeros_like(w)

    def step(self, w, g, t):
        direction = (0.9 * self.m + (1 - 0.9) * g).sign()
        self.m = 0.99 * self.m + (1 - 0.99) * g
        return w * (1 - 1e-2 * 0.1) - 1e-2 * direction


class AdafactorRule:
    def __init__(self, w):
        matrix = rows_of(w)
        self.r = torch.zeros(matrix.shape[0], dtype=torch.float64)
        self.c = torch.zeros(matrix.shape[1], dtype=torch.float64)

    def step(self, w, g, t):
        beta, squares = 1 - t ** -0.8, rows_of(g) ** 2 + 1e-30
        self.c = beta * self.c + (1 - beta) * squares.mean(0)
        if len(self.r) == 1:
            second = self.c[None]
        else:
            self.r = beta * self.r + (1 - beta) * squares.mean(1)
            second = self.r[:, None] * self.c[None] / self.r.mean()
        u = rows_of(g) / second.sqrt()
        u = (u / max(1, u.square().mean().sqrt())).reshape(w.shape)
        size = max(1e-3, float(w.square().mean().sqrt()))
        return w - 1e-2 * 0.1 * w - 1e-2 * size * u


class MuonRule:
    def __init__(self, w, like_adamw=False):
        self.b, self.like_adamw = torch.zeros_like(w), like_adamw

    def step(self, w, g, t):
        self.b = 0.95 * self.b + (1 - 0.95) * g
        u = (1 - 0.95) * g + 0.95 * self.b
        tall = u.shape[0] > u.shape[1]
        x = u.t() if tall else u
        x = x / x.norm()
        for _ in range(5):
            square = x @ x.t()
            x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
        x = x.t() if tall else x
        k = 0.2 * math.sqrt(max(w.shape)) if self.like_adamw else math.sqrt(
            max(1, w.shape[0] / w.shape[1]))
        return w * (1 - 1e-2 * 0.1) - 1e-2 * k * x


class GroupAdamRule:
    def __init__(self, w):
        self.m, self.v, self.z = (torch.zeros_like(w) for _ in range(3))

    def step(self, w, g, t):
        lr, b1, b2, eps, l1, l2, l21 = 1e-2, 0.9, 0.999, 1e-8, 0.01, 0.01, 0.05
        self.m = b1 * self.m + (1 - b1) * g
        v = b2 * self.v + (1 - b2) * g * g
        rate = lr * math.sqrt(1 - b2 ** t) / (1 - b1 ** t)
        self.z = self.z + rate * self.m - (v.sqrt() - self.v.sqrt() + (eps if t == 1 else 0)) * w
        self.v = v
        return shrunk(self.z, l1 * lr, l21 * lr, v.sqrt() + eps + 2 * l2 * lr)


class GroupAdaGradRule:
    def __init__(self, w):
        self.n = torch.full_like(w, 0.1)
        self.z = -self.n.sqrt() / 1e-2 * w

    def step(self, w, g, t):
        n = self.n + g * g
        self.z = self.z + g - (n.sqrt() - self.n.sqrt()) / 1e-2 * w
        self.n = n
        return shrunk(self.z, 0.01, 1.0, n.sqrt() / 1e-2 + 2 * 0.01)


def shrunk(z, l1, l21, denominator):
    s = rows_of(z.clamp(-l1, l1) - z)
    length = s.norm(dim=1, keepdim=True)
    share = (1 - l21 * math.sqrt(s.shape[1]) / length).clamp(min=0)
    return (share * s / rows_of(denominator)).reshape(z.shape)


def muon_of(params, **options):
    return optim.Muon(params, lr=1e-2, weight_decay=0.1, **options)


PENALTIES = {"l1": 0.01, "l2": 0.01}
CLASSES = {  # a way to make the class, and its rule
    "AdamW": (lambda p: optim.AdamW(p, lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1), AdamWRule),
    "AGD": (lambda p: optim.AGD(p, lr=1e-2, weight_decay=0.1), AgdRule),
    "Lion": (lambda p: optim.Lion(p, lr=1e-2, weight_decay=0.1), LionRule),
    "Adafactor": (lambda p: optim.Adafactor(p, weight_decay=0.1), AdafactorRule),
    "Muon": (muon_of, MuonRule),
    "Muon for AdamW's rate": (lambda p: muon_of(p, adjust_lr_fn="match_rms_adamw"),
                              lambda w: MuonRule(w, like_adamw=True)),
    "Muon's AdamW": (lambda p: muon_of([{"params": p, "use_muon": False}]), AdamWRule),
    "GroupAdam": (lambda p: optim.GroupAdam(p, lr=1e-2, l21=0.05, **PENALTIES), GroupAdamRule),
    "GroupAdaGrad": (lambda p: optim.GroupAdaGrad(p, l21=1.0, **PENALTIES), GroupAdaGradRule),
}
SHAPES = [(6, 17), (17, 6), (2, 40)]



class Rules(unittest.TestCase):
    def test_each_class_agrees_with_its_rule_in_float64(self):
        for name, (make, rule) in CLASSES.items():
            for maximize in (False, True):
                with self.subTest(name, maximize=maximize):
                    self.compare(name, make, rule, maximize)

    def compare(self, name, make, rule, maximize):
        shapes = SHAPES if name.startswith("Muon") else SHAPES + [(33,), (4, 3, 2)]
        params = parameters(*shapes)
        optimizer = make(params)
        for group in optimizer.param_groups:
            group["maximize"] = maximize
        weights = [p.detach().double() for p in params]
        rules = [rule(w) for w in weights]
        for step in range(1, STEPS + 1):
            set_gradients(params, step)
            optimizer.step()
            for i, parameter in enumerate(params):
                g = parameter.grad.double() * (-1 if maximize else 1)
                weights[i] = rules[i].step(weights[i], g, step)
        for parameter, w in zip(params, weights):
            self.assertLess(float((parameter.detach().double() - w).abs().max()), 2e-5, name)

    def test_a_large_penalty_drops_rows(self):
        params = parameters((6, 8))
        optimizer = optim.GroupAdam(params, lr=1e-2, l21=100.0)
        set_gradients(params, 1)
        optimizer.step()
        self.assertEqual(float(params[0].detach().abs().max()), 0)

    def test_adamw_agrees_with_pytorch_over_100_steps(self):
        ours, theirs = parameters(*SHAPES, (33,)), parameters(*SHAPES, (33,))
        first, second = optim.AdamW(ours), torch.optim.AdamW(theirs)
        for step in range(1, 101):
            set_gradients(ours, step)
            set_gradients(theirs, step)
            first.step()
            second.step()
        for a, b in zip(ours, theirs):
            self.assertLess(float((a - b).detach().abs().max()), 1e-6)


class Sharpness(unittest.TestCase):
    """A loss of sum(w^4) / 4, whose gradient is w^3."""

    def run_steps(self, make, after):
        parameter, = parameters((9,))
        optimizer = make([parameter])
        w = parameter.detach().double()
        rule = AdamWRule(w, decay=0.1)

        def closure():
            optimizer.zero_grad()
            loss = (parameter ** 4).sum() / 4
            loss.backward()
            return loss
        for step in range(1, STEPS + 1):
            g = w ** 3
            h = (w + 0.05 * g / (g.norm() + 1e-12)) ** 3
            expected = float((w ** 4).sum() / 4)
            w = after(rule, w, g, h, step)
            self.assertAlmostEqual(float(optimizer.step(closure).detach()), expected, delta=1e-3)
        self.assertLess(float((parameter.detach().double() - w).abs().max()), 2e-5)

    def base(self, params):
        return optim.AdamW(params, lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)

    def test_sam_steps_with_the_second_gradient(self):
        self.run_steps(lambda p: optim.SAM(self.base(p)), lambda rule, w, g, h, t: rule.step(w, h, t))

    def test_coupled_wsam_steps_with_the_mix(self):
        self.run_steps(lambda p: optim.WSAM(self.base(p), gamma=0.6, decoupled=False),
                       lambda rule, w, g, h, t: rule.step(w, 1.5 * h - 0.5 * g, t))

    def test_decoupled_wsam_corrects_after_the_step(self):
        self.run_steps(lambda p: optim.WSAM(self.base(p), gamma=0.6),
                       lambda rule, w, g, h, t: rule.step(w, g, t) - 1e-2 * 1.5 * (h - g))

    def test_a_closure_is_required_and_a_failed_one_leaves_the_weights(self):
        parameter, = parameters((9,))
        before = parameter.detach().clone()
        optimizer = optim.SAM(self.base([parameter]))
        with self.assertRaisesRegex(optim.OptimizerError, r"call step\(closure\)"):
            optimizer.step()
        calls = []

        def closure():
            calls.append(1)
            if len(calls) == 2:
                self.assertFalse(torch.equal(parameter, before))
                raise KeyError("second")
            parameter.grad = torch.ones(9)
        with self.assertRaises(KeyError):
            optimizer.step(closure)
        self.assertTrue(torch.equal(parameter, before))

    def test_a_gradient_that_is_not_finite_is_refused(self):
        parameter, = parameters((9,))
        before = parameter.detach().clone()

        def closure():
            parameter.grad = torch.full((9,), math.nan)
        with self.assertRaisesRegex(LonghaulError, "norm is nan"):
            optim.SAM(self.base([parameter])).step(closure)
        self.assertTrue(torch.equal(parameter, before))

    def test_a_scheduler_and_a_state_dict_reach_the_wrapped_optimizer(self):
        params = parameters((9,))
        base = self.base(params)
        optimizer = optim.WSAM(base)
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5)
        self.assertEqual(base.param_groups[0]["lr"], 0.5e-2)
        other = optim.WSAM(self.base(params))
        other.load_state_dict(optimizer.state_dict())
        self.assertEqual(other.optimizer.param_groups[0]["lr"], 0.5e-2)
        self.assertIs(other.param_groups, other.optimizer.param_groups)
        optimizer.add_param_group({"params": parameters((3,))})
        self.assertEqual(len(base.param_groups), 2)


class Resume(unittest.TestCase):
    def test_each_class_continues_with_the_same_bits(self):
        for name, (make, _) in CLASSES.items():
            with self.subTest(name):
                whole, stopped = parameters(*SHAPES), parameters(*SHAPES)
                first, second = make(whole), make(stopped)
                for step in range(1, 11):
                    for params, optimizer in ((whole, first), (stopped, second)):
                        set_gradients(params, step)
                        optimizer.step()
                    if step == 5:
                        file = io.BytesIO()
                        torch.save((stopped, second.state_dict()), file)
                        file.seek(0)
                        stopped, state = torch.load(file, weights_only=False)
                        second = make(stopped)
                        second.load_state_dict(state)
                for a, b in zip(whole, stopped):
                    self.assertTrue(torch.equal(a, b))

    def test_an_optimizer_is_pickled(self):
        params = parameters((4,))
        optimizer = optim.Lion(params)
        set_gradients(params, 1)
        optimizer.step()
        again = pickle.loads(pickle.dumps(optimizer))
        self.assertTrue(torch.equal(again.param_groups[0]["params"][0], params[0]))

    def test_adamw_and_pytorch_load_the_state_of_each_other(self):
        for source, target in ((optim.AdamW, torch.optim.AdamW), (torch.optim.AdamW, optim.AdamW)):
            one, two = parameters((5, 3)), parameters((5, 3))
            first, second = source(one, lr=1e-2), target(two)
            set_gradients(one, 1)
            first.step()
            two[0].data.copy_(one[0])
            second.load_state_dict(copy.deepcopy(first.state_dict()))
            self.assertEqual(second.param_groups[0]["lr"], 1e-2)
            for params, optimizer in ((one, first), (two, second)):
                set_gradients(params, 2)
                optimizer.step()
            self.assertEqual(int(second.state[two[0]]["step"]), 2)
            self.assertLess(float((one[0] - two[0]).detach().abs().max()), 1e-6)

    def test_the_state_of_another_model_is_refused(self):
        for name, (make, _) in CLASSES.items():
            with self.subTest(name):
                small, large = parameters((2, 3)), parameters((4, 5))
                source, target = make(small), make(large)
                set_gradients(small, 1)
                source.step()
                target.load_state_dict(source.state_dict())
                set_gradients(large, 2)
                with self.assertRaisesRegex(optim.OptimizerError, "load the state_dict of the same"):
                    target.step()


class Use(unittest.TestCase):
    def test_a_scheduler_changes_the_rate(self):
        params, steps = parameters((5, 3)), []
        optimizer = optim.AdamW(params, lr=1.0, weight_decay=0)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.1)
        for _ in range(3):
            before = params[0].detach().clone()
            params[0].grad = torch.ones(5, 3)
            optimizer.step()
            scheduler.step()
            steps.append(float((before - params[0]).detach().mean()))
        for got, want in zip(steps, (1, 0.1, 0.01)):
            self.assertAlmostEqual(got, want, delta=1e-4)

    def test_group_adagrad_refuses_another_rate(self):
        params = parameters((5, 3))
        optimizer = optim.GroupAdaGrad(params)
        set_gradients(params, 1)
        optimizer.step()
        optimizer.param_groups[0]["lr"] = 0.5
        with self.assertRaisesRegex(optim.OptimizerError, "began with 0.01: keep one rate"):
            optimizer.step()

    def test_a_closure_is_called_once_and_its_loss_returned(self):
        params, calls = parameters((3,)), []
        optimizer = optim.Lion(params)

        def closure():
            calls.append(torch.is_grad_enabled())
            optimizer.zero_grad()
            loss = params[0].square().sum()
            loss.backward()
            return loss
        self.assertGreater(float(optimizer.step(closure).detach()), 0)
        self.assertEqual(calls, [True])

    def test_a_parameter_without_a_gradient_stays(self):
        params = parameters((3,), (4,))
        before = params[0].detach().clone()
        optimizer = optim.AdamW(params)
        params[1].grad = torch.ones(4)
        optimizer.step()
        self.assertTrue(torch.equal(params[0], before))
        self.assertNotIn(params[0], optimizer.state)

    def test_groups_have_their_own_options(self):
        one, two = parameters((3,), (3,))
        optimizer = optim.Lion([{"params": [one], "lr": 0.5}], lr=0.1)
        optimizer.add_param_group({"params": [two]})
        befores = [one.detach().clone(), two.detach().clone()]
        one.grad, two.grad = torch.ones(3), torch.ones(3)
        optimizer.step()
        self.assertTrue(torch.equal(one, befores[0] - 0.5))
        self.assertTrue(torch.equal(two, befores[1] - 0.1))

    def test_hidden_matrices_are_separated(self):
        model = torch.nn.ModuleDict({"token": torch.nn.Embedding(5, 4), "up": torch.nn.Linear(4, 8),
                                     "head": torch.nn.Linear(8, 5)})
        hidden, others = optim.hidden_matrices(model, output=("head",))
        self.assertEqual([id(p) for p in hidden], [id(model["up"].weight)])
        self.assertEqual(len(others), 4)
        with self.assertRaisesRegex(optim.OptimizerError, "no module lm_head"):
            optim.hidden_matrices(model, output=("lm_head",))


class Refused(unittest.TestCase):
    def refuse(self, words, call):
        with self.assertRaisesRegex(optim.OptimizerError, words):
            call()

    def test_parameters_that_the_kernels_cannot_use(self):
        def of(tensor):
            return lambda: optim.AdamW([torch.nn.Parameter(tensor)])
        self.refuse(r"parameter 0 of group 0 with shape \(3,\) has dtype torch.bfloat16: convert it",
                    of(torch.zeros(3, dtype=torch.bfloat16)))
        self.refuse("is on meta: move it to the CPU", of(torch.zeros(3, device="meta")))
        self.refuse(r"has strides \(1, 4\): make it contiguous", of(torch.zeros(3, 4).t().t().t()))

    def test_a_parameter_is_named_if_it_was_given_with_its_name(self):
        model = torch.nn.Linear(3, 2).double()
        try:
            self.refuse("parameter weight with shape", lambda: optim.AdamW(model.named_parameters()))
        except TypeError:
            self.skipTest("this PyTorch takes no named parameters")

    def test_a_parameter_that_changed_since(self):
        parameter, = parameters((3,))
        optimizer = optim.AdamW([parameter])
        parameter.data = parameter.data.double()
        parameter.grad = torch.zeros(3, dtype=torch.float64)
        self.refuse("has dtype torch.float64", optimizer.step)

    def test_gradients_that_are_sparse_or_strided(self):
        table = torch.nn.Embedding(4, 3, sparse=True)
        optimizer = optim.AdamW(table.parameters())
        table(torch.tensor([1])).sum().backward()
        self.refuse(r"the gradient of parameter 0 .* is torch.sparse_coo: use dense", optimizer.step)
        parameter, = parameters((3, 4))
        optimizer = optim.AdamW([parameter])
        parameter.grad = torch.zeros(4, 3).t()
        self.refuse("the gradient of parameter 0 .* has strides", optimizer.step)
        self.assertNotIn(parameter, optimizer.state)

    def test_options_out_of_range(self):
        def of(make, **options):
            return lambda: make(parameters((3, 2)), **options)
        for make in (optim.AdamW, optim.AGD, optim.Lion, optim.Muon, optim.Adafactor,
                     optim.GroupAdam, optim.GroupAdaGrad):
            self.refuse("lr", of(make, lr=-1.0))
            self.refuse("lr", of(make, lr=math.nan))
        self.refuse("betas is .*less than 1", of(optim.AdamW, betas=(0.9, 1.0)))
        self.refuse("amsgrad=True: use torch.optim", of(optim.AdamW, amsgrad=True))
        self.refuse("differentiable=True", of(optim.AdamW, differentiable=True))
        self.refuse("adjust_lr_fn is 'other'", of(optim.Muon, adjust_lr_fn="other"))
        self.refuse("use_muon=False", lambda: optim.Muon(parameters((3,))))
        self.refuse("wraps Adam, expected", lambda: optim.SAM(torch.optim.Adam(parameters((3,)))))

    def test_a_group_that_is_refused_is_not_added(self):
        optimizer = optim.AdamW(parameters((3,)))
        self.refuse("dtype", lambda: optimizer.add_param_group(
            {"params": [torch.nn.Parameter(torch.zeros(2).half())]}))
        self.assertEqual(len(optimizer.param_groups), 1)

    def test_an_error_in_a_product_leaves_the_weights(self):
        params = parameters((4, 5))
        before = params[0].detach().clone()
        optimizer = optim.Muon(params)
        set_gradients(params, 1)
        real, torch.mm = torch.mm, lambda *words, **options: 1 / 0
        try:
            self.assertRaises(ZeroDivisionError, optimizer.step)
        finally:
            torch.mm = real
        self.assertTrue(torch.equal(params[0], before))


if __name__ == "__main__":
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    unittest.main()
