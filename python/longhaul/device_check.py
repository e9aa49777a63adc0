"""Tests the accelerators of this machine: a check command for `longhaul agent --check-command`.

python3 -m longhaul.device_check [--device cuda|cpu] [--seconds N] [--json]

For each device:
- Products of matrices of small integers in bf16 and fp32, whose results are known exactly: each element is
  compared, so that a silent error is found. The speed is reported in TFLOP/s.
- A copy in the device's memory, and copies from host memory, in GB/s.
- Patterns in a part of the free memory (at most 1 GiB) that are written and read again.
- With nvidia-smi: uncorrectable ECC errors, and rows of memory whose remapping is pending or has failed.

With --json it prints the lines that the node check reads (docs/node-check.md). The exit code is 0 if all devices are
good, 1 if one is bad or none is found, 2 for wrong use and 127 if PyTorch is not installed.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

PERIOD = 128  # of the matrices' elements
SMI_LIMIT_S = 20
SMI_COLUMNS = {"ecc.errors.uncorrected.volatile.total": "uncorrectable ECC errors since the driver was loaded",
               "remapped_rows.pending": "rows of memory whose remapping is pending",
               "remapped_rows.failure": "rows of memory that could not be remapped"}
# Written to memory as 64-bit integers: alternating bits, their complement, all and none.
PATTERNS = (0x5555555555555555, -0x5555555555555556, -1, 0)


class Size:
    """How much work the tests of one kind of device do."""

    def __init__(self, rows: int, depth: int, copied_bytes: int, pattern_bytes: int) -> None:
        self.rows, self.depth = rows, depth
        self.copied_bytes, self.pattern_bytes = copied_bytes, pattern_bytes


SIZES = {"cuda": Size(4096, 2048, 256 << 20, 1 << 30), "cpu": Size(256, 256, 16 << 20, 16 << 20)}


class Report:
    """The measurements and failures of all devices; may be used by several threads."""

    def __init__(self) -> None:
        self.lines: List[Dict[str, Any]] = []
        self._lock = threading.Lock()

    def value(self, name: str, model: str, value: float, unit: str) -> None:
        with self._lock:
            self.lines.append({"name": name, "model": model, "value": value, "unit": unit,
                               "higher_is_better": True})

    def failed(self, name: str, why: str) -> None:
        with self._lock:
            self.lines.append({"name": name, "failed": why[:300]})

    def failures(self) -> List[str]:
        return [f"{line['name']}: {line['failed']}" for line in self.lines if "failed" in line]


def sequence(seed: int) -> List[int]:
    """Returns PERIOD numbers of -1, 0 and 1."""
    numbers, state = [], seed
    for _ in range(PERIOD):
        state = (state * 1_664_525 + 1_013_904_223) % 2**32  # Numerical Recipes' generator
        numbers.append((state >> 16) % 3 - 1)
    return numbers


def matrices(torch: Any, rows: int, depth: int) -> Tuple[Any, Any, Any]:
    """Returns a, b and a * b as float32 on the CPU.

    a[i, k] is first[(i + k) % PERIOD] and b[k, j] is second[(k + 5 * j) % PERIOD], so that element (i, j) of the
    product is depth / PERIOD times the correlation of the two sequences at i - 5 * j, which is computed with
    integers. depth is a power of 2, so that bf16 has the product exactly.
    """
    first, second = torch.tensor(sequence(1)), torch.tensor(sequence(2))
    row, column, inner = torch.arange(rows)[:, None], torch.arange(rows)[None, :], torch.arange(depth)
    a = first[(row + inner[None, :]) % PERIOD]
    b = second[(inner[:, None] + 5 * column) % PERIOD]
    correlation = torch.tensor([sum(sequence(1)[(t + shift) % PERIOD] * sequence(2)[t] for t in range(PERIOD))
                                for shift in range(PERIOD)])
    product = correlation[(row - 5 * column) % PERIOD] * (depth // PERIOD)
    return a.float(), b.float(), product.float()


class DeviceTests:
    """The tests of one device."""

    def __init__(self, torch: Any, name: str, model: str, size: Size, seconds: float, report: Report) -> None:
        self.torch, self.name, self.model, self.size = torch, name, model, size
        self.seconds, self.report = seconds, report

    def synchronize(self) -> None:
        if self.name.startswith("cuda"):
            self.torch.cuda.synchronize(self.name)

    def rate(self, work: Callable[[], Any], check: Callable[[], bool]) -> Optional[float]:
        """Repeats the work for the seconds. Returns how often it was done per second; None if a check failed."""
        work()
        self.synchronize()
        done, spent, times = 0, 0.0, 1
        while spent < self.seconds:
            start = time.monotonic()
            for _ in range(times):
                work()
            self.synchronize()
            took = time.monotonic() - start
            done, spent = done + times, spent + took
            if not check():
                return None
            if took < self.seconds / 20:
                times *= 2
        return done / spent

    def product(self, kind: str, dtype: Any) -> None:
        rows, depth = self.size.rows, self.size.depth
        a, b, expected = (each.to(dtype).to(self.name) for each in matrices(self.torch, rows, depth))
        result = self.torch.empty_like(expected)
        name = f"{self.name} {kind} product"
        rate = self.rate(lambda: self.torch.mm(a, b, out=result), lambda: bool(self.torch.equal(result, expected)))
        if rate is None:
            wrong = int((result != expected).sum())
            self.report.failed(name, f"{wrong} elements of a matrix product are wrong")
        else:
            self.report.value(name, self.model, 2.0 * rows * rows * depth * rate * 1e-12, "TFLOP/s")

    def copy(self, kind: str, source: Any, moved: int) -> None:
        """Copies `source` to the device; `moved`: how many bytes each of its bytes counts as."""
        target = self.torch.zeros(source.shape, dtype=source.dtype, device=self.name)
        name = f"{self.name} {kind}"
        rate = self.rate(lambda: target.copy_(source, non_blocking=True),
                         lambda: bool(self.torch.equal(target[-1024:].cpu(), source[-1024:].cpu())))
        if rate is None or not bool(self.torch.equal(target.cpu(), source.cpu())):
            self.report.failed(name, "a copy differs from the original")
        else:
            self.report.value(name, self.model, moved * source.numel() * source.element_size() * rate * 1e-9, "GB/s")

    def copies(self) -> None:
        count = self.size.copied_bytes // 8
        numbers = self.torch.arange(count, dtype=self.torch.int64)
        self.copy("memory copy", (numbers * 0x9E3779B97F4A7C1).to(self.name), moved=2)  # read and written
        if self.name.startswith("cuda"):
            self.copy("copy from host memory", numbers.pin_memory(), moved=1)

    def patterns(self) -> None:
        size = self.size.pattern_bytes
        if self.name.startswith("cuda"):
            size = min(size, self.torch.cuda.mem_get_info(self.name)[0] // 4)
        memory = self.torch.empty(max(size // 8, 1), dtype=self.torch.int64, device=self.name)
        for pattern in PATTERNS:
            memory.fill_(pattern)
            wrong = int((memory != pattern).sum())
            if wrong > 0:
                self.report.failed(f"{self.name} memory", f"{wrong} words of 64 bits differ from what was written")
                return

    def run(self) -> None:
        try:
            self.product("bf16", self.torch.bfloat16)
            self.product("fp32", self.torch.float32)
            self.copies()
            self.patterns()
        except RuntimeError as error:  # of CUDA as well
            lines = str(error).strip().splitlines() or ["unknown error"]
            self.report.failed(self.name, lines[0])


def ask_smi() -> Optional[str]:
    """Returns the output of nvidia-smi; None where there is none. An error text raises RuntimeError."""
    columns = ",".join(["index", "uuid", *SMI_COLUMNS])
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={columns}", "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, errors="replace", timeout=SMI_LIMIT_S, check=False)
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"nvidia-smi did not answer within {SMI_LIMIT_S} s") from error
    if "not a valid field" in done.stdout:  # a driver that does not know the columns
        return None
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
        raise RuntimeError(f"nvidia-smi exited with code {done.returncode}: {lines[-1]}")
    return done.stdout


def read_smi(output: str, wanted: List[str], report: Report) -> None:
    """Reports what nvidia-smi counts. wanted: the UUIDs of the devices that are tested; none: all."""
    for line in output.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 2 + len(SMI_COLUMNS):
            continue
        if wanted and fields[1].replace("GPU-", "") not in wanted:
            continue
        for what, text in zip(SMI_COLUMNS.values(), fields[2:]):
            count = int(text) if text.isdigit() else int(text.lower() == "yes")  # [N/A]: unknown
            if count > 0:
                report.failed(f"GPU {fields[0]} {what}", f"{count} {what}")


def check_smi(wanted: List[str], report: Report) -> None:
    try:
        output = ask_smi()
    except RuntimeError as error:
        report.failed("nvidia-smi", str(error))
        return
    if output is not None:
        read_smi(output, wanted, report)


def check_cuda(torch: Any, seconds: float, report: Report) -> None:
    for flag in ("allow_tf32", "allow_bf16_reduced_precision_reduction"):
        try:
            setattr(torch.backends.cuda.matmul, flag, False)
        except (AssertionError, AttributeError):
            pass  # a version of PyTorch that does not know the flag and does not do this
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        report.failed("cuda", "PyTorch finds no CUDA device")
    tests, uuids = [], []
    for index in range(count):
        properties = torch.cuda.get_device_properties(index)
        uuids.append(str(getattr(properties, "uuid", "")))
        tests.append(DeviceTests(torch, f"cuda:{index}", str(properties.name), SIZES["cuda"], seconds, report))
    # All devices at once, as a job uses them: the power supply and the cooling are tested too.
    threads = [threading.Thread(target=test.run) for test in tests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check_smi(uuids if all(uuids) else [], report)


def print_table(report: Report) -> None:
    for line in report.lines:
        shown = line.get("failed") or f"{line['value']:.4g} {line['unit']}"
        print(f"{line['name']:40} {'bad' if 'failed' in line else 'good':5} {shown}")


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m longhaul.device_check",
                                     description="Test the accelerators of this machine.")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="which devices (default: cuda)")
    parser.add_argument("--seconds", type=float, default=2.0,
                        help="how long each of the four speeds of a device is measured (default: 2)")
    parser.add_argument("--json", action="store_true", help="print the lines that the node check reads")
    options = parser.parse_args(arguments)
    if not 0 < options.seconds <= 10:
        parser.error(f"--seconds is {options.seconds}, expected a number above 0 and at most 10")
    try:
        import torch
    except ImportError as error:
        print(f"longhaul.device_check needs PyTorch: {error}", file=sys.stderr)
        return 127
    report = Report()
    if options.device == "cuda":
        check_cuda(torch, options.seconds, report)
    else:
        DeviceTests(torch, "cpu", "", SIZES["cpu"], options.seconds, report).run()
    report.lines.sort(key=lambda line: str(line["name"]))
    if options.json:
        for line in report.lines:
            print(json.dumps(line))
    else:
        print_table(report)
    failures = report.failures()
    if failures:
        print(f"{len(failures)} tests of devices failed; the first: {failures[0]}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
