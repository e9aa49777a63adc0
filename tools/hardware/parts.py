"""The parts of the check. Each one takes the machine and returns its figures.

A part raises Failure if something is not as it has to be, and NotApplicable if it cannot run here.
The docstring of a part is its row on the page.
"""

import json
import pathlib
import re

from machine import Failure, NotApplicable, last_line, run

HERE = pathlib.Path(__file__).resolve().parent
STEPS = 40
KILL = "kill worker 0 at step 15"

# No PyTorch: files keep the workers at the same step.
COUNT = """
import glob, os, time
import longhaul
rank, world = os.environ["RANK"], int(os.environ["WORLD_SIZE"])
marks = os.environ["LONGHAUL_ATTEMPT"]
os.makedirs(marks, exist_ok=True)
saved = longhaul.restore()
total, first = (saved.state["total"], saved.step + 1) if saved else (0, 1)
for step in range(first, 31):
    total += step
    open(f"{marks}/{step}-{rank}", "w").close()
    while len(glob.glob(f"{marks}/{step}-*")) < world:
        time.sleep(0.005)
    longhaul.snapshot({"total": total}, step)
    longhaul.report(step, loss=1 / step, tokens=1)
print("total", total, flush=True)
"""

# What PyTorch itself reaches, beside the figures of `longhaul calibrate`.
MATMUL = """
import json, statistics, sys, torch
m, n, k = (int(float(word)) for word in sys.argv[1:4])  # the file has floating-point sizes
a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
times = []
for _ in range(13):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record(); a @ b; end.record(); torch.cuda.synchronize()
    times.append(begin.elapsed_time(end) / 1e3)
print(json.dumps(statistics.median(times[3:])))
"""


def milliseconds(seconds):
    return round(1e3 * seconds, 3)


def recovery_seconds(report):
    """Seconds from the fault until all workers have completed a further step."""
    return round(report["faults"][0]["recovery_seconds"], 3)


def install(machine):
    """the wheel installs without a network or a compiler, and the program runs"""
    took = machine.install()
    version = machine.longhaul("--version").strip()
    plan = json.loads(machine.longhaul("plan", "gpt2", "h100-sxm:8", "--json"))
    if not plan["best"]:
        raise Failure("the planner found no layout for gpt2 on 8 GPUs")
    return {"version": version, "install_seconds": round(took, 2),
            "wheel_mib": round(machine.wheel.stat().st_size / (1 << 20), 1)}


def recovery(machine):
    """four workers without PyTorch; one is killed, and the job continues from memory"""
    script = machine.folder / "count.py"
    script.write_text(COUNT, encoding="utf-8")
    report, output = machine.job("recovery", [machine.python, script], nodes=2, procs=2,
                                 inject="kill worker 1 at step 12")
    if output.count("total 465") != 4:
        raise Failure("the workers did not count to 465 after the fault")
    return {"from_step": report["faults"][0]["from_step"], "recovery_s": recovery_seconds(report)}


def training_command(machine, result, *options):
    return [machine.python, HERE / "train_gpt.py", "--device", machine.device, "--steps", STEPS,
            "--result", result, *options]


def layout(machine, parallel):
    """The workers and the backend. NCCL refuses two workers on one GPU."""
    gpus = len(machine.gpus)
    if gpus >= 2:
        return gpus, "nccl"
    if gpus == 1:
        return (2, "gloo") if parallel == "ddp" else (1, "nccl")
    return 2, "gloo"


def interrupted(machine, parallel, *options):
    """Trains without and with a killed worker; both have to end with the same loss."""
    machine.need_torch()
    procs, backend = layout(machine, parallel)
    figures = {"device": machine.device, "workers": procs, "backend": backend}
    ends = []
    for name, fault in (("clean", None), ("killed", KILL)):
        result = machine.folder / f"{parallel}-{name}.json"
        report, _ = machine.job(
            f"{parallel}-{name}",
            training_command(machine, result, "--parallel", parallel, "--backend", backend,
                             *options),
            procs=procs, inject=fault)
        ends.append(json.loads(result.read_text(encoding="utf-8")))
    clean, killed = ends
    if killed["first_step"] == 1:
        raise Failure("after the fault the training began again at step 1")
    if abs(clean["loss"] - killed["loss"]) > 1e-3 * abs(clean["loss"]):
        raise Failure(f"the last loss is {clean['loss']:.6f} without a fault and "
                      f"{killed['loss']:.6f} with one")
    figures.update(loss=round(clean["loss"], 6), restored_step=killed["first_step"] - 1,
                   weights_bit_equal=clean["weights"] == killed["weights"],
                   recovery_s=recovery_seconds(report), step_ms=milliseconds(clean["step_seconds"]))
    return figures


def ddp(machine):
    """DDP with snapshots of the GPU's tensors; a worker is killed; the same last loss"""
    return interrupted(machine, "ddp")


def fsdp2(machine):
    """FSDP2 (fully_shard) with sharded snapshots; a worker is killed; the same last loss"""
    if not machine.gpus:
        machine.need_torch((2, 6))  # Gloo has no reduce-scatter before
    return interrupted(machine, "fsdp2")


def snapshots(machine):
    """snapshots come back bit-equal; the time for which they stop training, beside a plain copy and
    torch.distributed.checkpoint.async_save"""
    machine.need_torch()
    result = machine.folder / "snapshots.json"
    size = (2 << 30) if machine.gpus else (64 << 20)
    machine.job("snapshots", [machine.python, HERE / "snapshot_cost.py", "--device", machine.device,
                              "--bytes", size, "--result", result])
    found = json.loads(result.read_text(encoding="utf-8"))
    if not found["bit_equal"]:
        raise Failure("a restored tensor differs from the one that was saved")
    return {"device": machine.device, "mib": size >> 20, "bit_equal": True,
            **{f"{kind}_ms": milliseconds(value) for kind, value in found["seconds"].items()}}


def devices(machine):
    """python3 -m longhaul.device_check finds no fault; the speeds that it measures"""
    machine.need_torch()
    done = run(machine.python, "-m", "longhaul.device_check", "--device", machine.device,
               "--seconds", 2 if machine.gpus else 0.2, "--json", env=machine.environment())
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or not lines:
        raise Failure(f"longhaul.device_check ended with code {done.returncode}: "
                      f"{last_line(done.stderr)}")
    return {f"{line['name']} {line['unit']}".replace(" ", "_"): float(f"{line['value']:.4g}")
            for line in lines}


def largest_matmul(file):
    """The bf16 matmul of the file with the most operations."""
    matmuls = [each for each in file["figures"]
               if each["operator"] == "matmul" and each["precision"] == "bf16"]
    if not matmuls:
        raise Failure("longhaul calibrate measured no matmul in bf16")
    return max(matmuls, key=lambda each: each["m"] * each["n"] * each["k"])


def calibrate(machine):
    """longhaul calibrate measures the GPU; its largest matmul, beside the same one in PyTorch"""
    machine.need_torch()
    machine.need_gpu()
    path = machine.folder / "gpu.json"
    machine.longhaul("calibrate", "--device", "cuda", "--quick", "--output", path)
    if not path.exists():
        raise Failure("longhaul calibrate measured the processor instead of the GPU")
    file = json.loads(path.read_text(encoding="utf-8"))
    most = largest_matmul(file)
    done = run(machine.python, "-c", MATMUL, most["m"], most["n"], most["k"])
    if done.returncode != 0:
        raise Failure("PyTorch's matmul failed: " + done.stderr.strip().splitlines()[-1])
    torch_seconds = json.loads(done.stdout)
    operations = 2 * most["m"] * most["n"] * most["k"]
    ratio = most["seconds"] / torch_seconds
    figures = {"figures": len(file["figures"]),
               "tflops": round(operations / most["seconds"] / 1e12, 1),
               "pytorch_tflops": round(operations / torch_seconds / 1e12, 1),
               "time_ratio": round(ratio, 3)}
    for each in file["figures"]:
        if each["operator"] == "stream":
            # A copy reads so many bytes and writes as many.
            figures["memory_gb_per_s"] = round(2 * each["bytes"] / each["seconds"] / 1e9)
    if not 0.8 <= ratio <= 1.25:
        raise Failure(f"its largest matmul takes {ratio:.2f} times as long as PyTorch's")
    return figures


def kernel_microseconds(path):
    """The sum of the durations of the kernels that began within the profiled steps of the trace."""
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    steps = [(each["ts"], each["ts"] + each["dur"]) for each in events
             if str(each.get("name", "")).startswith("ProfilerStep#") and "dur" in each
             and each.get("cat") == "user_annotation"]
    if not steps:
        raise Failure(f"{path.name} has no annotated steps")
    begin, end = min(first for first, _ in steps), max(last for _, last in steps)
    return sum(each["dur"] for each in events
               if each.get("cat") == "kernel" and begin <= each["ts"] < end)


HTA = """
import json, sys
from hta.trace_analysis import TraceAnalysis
rows = TraceAnalysis(trace_dir=sys.argv[1]).get_temporal_breakdown(visualize=False)
print(rows.to_json(orient="records"))
"""


def beside_hta(machine, traces):
    """The temporal breakdown of rank 0 in microseconds, Longhaul's and HolisticTraceAnalysis's."""
    done = run(machine.python, "-c", HTA, traces)
    if done.returncode != 0:
        installed = "ModuleNotFoundError" not in done.stderr
        return {"hta": f"it failed: {last_line(done.stderr)}" if installed else "not installed"}
    theirs = next(row for row in json.loads(done.stdout.strip().splitlines()[-1])
                  if row["rank"] == 0)
    text = machine.longhaul("profile", traces / "rank0.json", "--as-hta")
    found = re.search(r"kernel time (\d+) us, idle (\d+), compute (\d+), non-compute (\d+)", text)
    if found is None:
        raise Failure("longhaul profile --as-hta printed no temporal breakdown")
    ours = [int(each) for each in found.groups()]
    names = ("kernel_time(us)", "idle_time(us)", "compute_time(us)", "non_compute_time(us)")
    figures = {}
    for name, value in zip(names, ours):
        figures[f"{name[:-4]}_us"] = value
        figures[f"{name[:-4]}_us_of_hta"] = round(theirs[name])
        if abs(value - theirs[name]) > 1 + 1e-4 * abs(theirs[name]):
            raise Failure(f"{name} is {value}, and HolisticTraceAnalysis reports {theirs[name]}")
    return figures


def profile(machine):
    """longhaul profile reads the trace of a training on the GPU; its kernel time, beside the sum
    over the trace, and its breakdown, beside that of HolisticTraceAnalysis, if installed"""
    machine.need_torch()
    machine.need_gpu()
    traces = machine.folder / "traces"
    traces.mkdir()
    procs, backend = layout(machine, "fsdp2")
    machine.job("profile", training_command(
        machine, machine.folder / "profile-run.json", "--parallel", "ddp", "--backend", backend,
        "--size", "gpt2", "--bf16", "--trace", traces, "--steps", 10), procs=procs)
    ours = json.loads(machine.longhaul("profile", traces, "--json"))
    rank = next(each for each in ours["ranks"] if each["rank"] == 0)
    total = sum(each["us"] for each in rank["kernels"])
    expected = kernel_microseconds(traces / "rank0.json")
    if not expected:
        raise Failure("the trace holds no kernels")
    figures = {"ranks": procs, "step_ms": round(ours["step_ms"], 3),
               "kernel_ms": milliseconds(total / 1e6),
               "kernel_ms_of_trace": milliseconds(expected / 1e6)}
    if abs(total - expected) > 0.02 * expected:
        raise Failure(f"the kernels took {expected:.0f} us by the trace, and longhaul profile "
                      f"reports {total:.0f} us")
    return {**figures, **beside_hta(machine, traces)}


def measured_step(machine, batch):
    """The time and the peak of the memory of a step of GPT-2 in bf16 with so many sequences."""
    result = machine.folder / f"plan-{batch}.json"
    machine.job(f"plan-{batch}", training_command(
        machine, result, "--parallel", "ddp", "--backend", "nccl", "--size", "gpt2", "--bf16",
        "--batch", batch))
    return json.loads(result.read_text(encoding="utf-8"))


def plan(machine):
    """the plan's time and memory of a step of GPT-2 in bf16 with 4, 8 and 32 sequences, beside the
    measured ones; what does not fit in the GPU's memory is left out"""
    machine.need_torch()
    machine.need_gpu()
    file = machine.folder / "gpu.json"
    if not file.exists():
        raise NotApplicable("the part calibrate has to succeed first")
    figures, off = {}, False
    for batch in (4, 8, 32):
        # The script is PyTorch's own operators without a compiler, as the stack `fsdp` models them.
        best = json.loads(machine.longhaul(
            "plan", "gpt2", file, "--gpus", "1", "--batch", batch, "--sequence", "1024",
            "--framework", "all", "--stack", "fsdp", "--fix", f"micro={batch}", "--fix", "zero=0",
            "--fix", "recompute=none", "--json"))["best"]
        if not best:
            continue
        measured = measured_step(machine, batch)
        time_ratio = best[0]["step_seconds"] / measured["step_seconds"]
        memory_ratio = best[0]["peak_memory_bytes"] / measured["peak_bytes"]
        figures.update({
            f"batch_{batch}_predicted_ms": milliseconds(best[0]["step_seconds"]),
            f"batch_{batch}_measured_ms": milliseconds(measured["step_seconds"]),
            f"batch_{batch}_predicted_gib": round(best[0]["peak_memory_bytes"] / (1 << 30), 2),
            f"batch_{batch}_measured_gib": round(measured["peak_bytes"] / (1 << 30), 2),
            f"batch_{batch}_time_ratio": round(time_ratio, 3),
            f"batch_{batch}_memory_ratio": round(memory_ratio, 3)})
        off = off or not (2 / 3 <= time_ratio <= 1.5 and 0.75 <= memory_ratio <= 4 / 3)
    if not figures:
        raise NotApplicable("the GPU's memory is too small for GPT-2 with 4 sequences")
    if off:
        raise Failure(f"the plan is off: {figures}")
    return figures


PARTS = {part.__name__: part
         for part in (install, recovery, ddp, fsdp2, snapshots, devices, calibrate, profile,
                      plan)}
