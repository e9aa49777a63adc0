#!/usr/bin/env python3
"""Processor time of an optimizer's step in Python: torch.optim and longhaul.optim.

  PYTHON bench/trainer/python_optimizers.py --library build/release/src/worker_api/liblonghaul.so

PYTHON has PyTorch (tools/pytorch_environment 2.15). The parameters are those of a GPT of 20 million
parameters, in f32, with one thread. All optimizers have their own parameters and run in turns, so
that other load meets all of them; a figure is the median over the turns. The last column is the
time of a step of 2,000 vectors of 8 floats, over the number of vectors: the cost of a parameter.
"""

import argparse
import os
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))
HIDDEN, LAYERS, VOCABULARY, SEQUENCE = 448, 7, 8_192, 512
SMALL = 2_000


def shapes():
    """The parameters of a GPT."""
    layer = [(HIDDEN,), (HIDDEN,), (3 * HIDDEN, HIDDEN), (3 * HIDDEN,), (HIDDEN, HIDDEN), (HIDDEN,),
             (HIDDEN,), (HIDDEN,), (4 * HIDDEN, HIDDEN), (4 * HIDDEN,), (HIDDEN, 4 * HIDDEN),
             (HIDDEN,)]
    return [(VOCABULARY, HIDDEN), (SEQUENCE, HIDDEN), *(LAYERS * layer), (HIDDEN,), (HIDDEN,)]


def makers(torch, optim):
    """A name and a function from parameters to an optimizer."""
    def muon(params):
        hidden = [p for p in params[2:] if p.dim() == 2]
        others = [p for p in params if not any(p is each for each in hidden)]
        groups = [{"params": others, "use_muon": False}]
        return optim.Muon(groups + [{"params": hidden}] if hidden else groups)

    theirs = torch.optim.AdamW
    return {"torch.optim.AdamW, foreach=False": lambda p: theirs(p, foreach=False),
            "torch.optim.AdamW, default": theirs,
            "torch.optim.AdamW, foreach=True": lambda p: theirs(p, foreach=True),
            "torch.optim.AdamW, fused=True": lambda p: theirs(p, fused=True),
            "longhaul.optim.AdamW": optim.AdamW, "longhaul.optim.AGD": optim.AGD,
            "longhaul.optim.Lion": optim.Lion, "longhaul.optim.GroupAdam": optim.GroupAdam,
            "longhaul.optim.GroupAdaGrad": optim.GroupAdaGrad,
            "longhaul.optim.Adafactor": optim.Adafactor, "longhaul.optim.Muon": muon}


def measure(torch, made, sizes, turns):
    """The median processor time of a step of each, in seconds."""
    optimizers = {}
    for name, make in made.items():
        params = [torch.nn.Parameter(torch.randn(size)) for size in sizes]
        for parameter in params:
            parameter.grad = 0.1 * torch.randn(parameter.shape)
        optimizers[name] = make(params)
        optimizers[name].step()
    times = {name: [] for name in made}
    for _ in range(turns):
        for name, optimizer in optimizers.items():
            began = time.process_time()
            optimizer.step()
            times[name].append(time.process_time() - began)
    return {name: statistics.median(values) for name, values in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--only", default="",
                        help="measure the optimizers whose name has this part")
    options = parser.parse_args()
    os.environ["LONGHAUL_LIBRARY"] = str(options.library.resolve())
    import torch
    from longhaul import optim
    torch.set_num_threads(1)
    torch.manual_seed(1)
    made = {name: make for name, make in makers(torch, optim).items() if options.only in name}
    count = sum(torch.Size(shape).numel() for shape in shapes())
    print(f"PyTorch {torch.__version__}, {count / 1e6:.1f} million parameters in {len(shapes())} "
          f"tensors, {options.turns} turns, load average {os.getloadavg()[0]:.1f}")
    large = measure(torch, made, shapes(), options.turns)
    small = measure(torch, made, SMALL * [(8,)], options.turns)
    print(f"{'optimizer':34} {'ms':>8} {'us a parameter':>15}")
    for name in made:
        print(f"{name:34} {large[name] * 1e3:8.1f} {small[name] / SMALL * 1e6:15.1f}")
    print(f"load average after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
