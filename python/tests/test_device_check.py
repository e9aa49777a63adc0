"""The tests of devices, with the CPU as the device and faults that are put in."""

import contextlib
import io
import json
import sys
import unittest
from unittest import mock

from longhaul import device_check

try:
    import torch
except ImportError:
    torch = None


def call(*arguments):
    """Returns the exit code, the standard output and the standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = device_check.main(list(arguments))
        except SystemExit as end:
            code = end.code
    return code, out.getvalue(), err.getvalue()


class Smi(unittest.TestCase):
    def failures(self, output, wanted=()):
        report = device_check.Report()
        device_check.read_smi(output, list(wanted), report)
        return report.failures()

    def test_counts_above_zero_are_failures(self):
        output = "0, GPU-aa, 0, No, No\n1, GPU-bb, 2, Yes, No\n2, GPU-cc, [N/A], [N/A], 3\n"
        self.assertEqual(self.failures(output), [
            f"GPU 1 {what}: {count} {what}" if number == 1 else f"GPU 2 {what}: {count} {what}"
            for number, count, what in (
                (1, 2, "uncorrectable ECC errors since the driver was loaded"),
                (1, 1, "rows of memory whose remapping is pending"),
                (2, 3, "rows of memory that could not be remapped"))])

    def test_other_devices_and_other_lines_do_not_count(self):
        self.assertEqual(self.failures("1, GPU-bb, 2, Yes, No\n", wanted=["aa"]), [])
        self.assertEqual(self.failures("something, else\n\n"), [])

    def test_an_error_of_nvidia_smi_is_a_failure_and_its_absence_is_not(self):
        for effect, failures in (
                (FileNotFoundError(), []),
                (device_check.subprocess.TimeoutExpired("nvidia-smi", 20),
                 ["nvidia-smi: nvidia-smi did not answer within 20 s"]),
                ([mock.Mock(returncode=9, stdout="No devices were found\n", stderr="")],
                 ["nvidia-smi: nvidia-smi exited with code 9: No devices were found"])):
            report = device_check.Report()
            with mock.patch.object(device_check.subprocess, "run", side_effect=effect):
                device_check.check_smi([], report)
            self.assertEqual(report.failures(), failures)


class Use(unittest.TestCase):
    def test_wrong_use_ends_with_code_2(self):
        for arguments, says in ((("--seconds", "0"), "--seconds is 0.0"), (("--seconds", "11"), "at most 10"),
                                (("--device", "tpu"), "invalid choice")):
            code, _, err = call(*arguments)
            self.assertEqual(code, 2)
            self.assertIn(says, err)

    def test_without_pytorch_the_code_is_that_of_a_command_that_cannot_run(self):
        with mock.patch.dict(sys.modules, {"torch": None}):
            code, out, err = call("--json")
        self.assertEqual((code, out), (127, ""))
        self.assertIn("needs PyTorch", err)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class OnTheCpu(unittest.TestCase):
    def run_cpu(self):
        code, out, err = call("--device", "cpu", "--seconds", "0.01", "--json")
        return code, {line["name"]: line for line in map(json.loads, out.splitlines())}, err

    def test_a_good_device_has_its_speeds(self):
        code, lines, err = self.run_cpu()
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(set(lines), {"cpu bf16 product", "cpu fp32 product", "cpu memory copy"})
        for line in lines.values():
            self.assertGreater(line["value"], 0)
            self.assertTrue(line["higher_is_better"])
        self.assertEqual(lines["cpu memory copy"]["unit"], "GB/s")

    def test_the_known_product_is_the_product_of_integers(self):
        for rows, depth in ((32, 128), (200, 256)):
            a, b, product = device_check.matrices(torch, rows, depth)
            self.assertTrue(torch.equal(a.long() @ b.long(), product.long()))
            self.assertTrue(torch.equal(product.bfloat16().float(), product))
            self.assertGreater(len(set(product.flatten().tolist())), 10)

    def test_one_wrong_bit_of_a_product_is_found(self):
        multiply = torch.mm

        def wrong(a, b, out):
            multiply(a, b, out=out)
            out[7, 11] += 2 ** -6 if out.dtype == torch.float32 else 256
            return out

        with mock.patch.object(torch, "mm", wrong):
            code, lines, err = self.run_cpu()
        self.assertEqual(code, 1)
        for kind in ("bf16", "fp32"):
            self.assertEqual(lines[f"cpu {kind} product"]["failed"], "1 elements of a matrix product are wrong")
        self.assertIn("value", lines["cpu memory copy"])
        self.assertIn("2 tests of devices failed", err)

    def test_wrong_memory_is_found(self):
        fill = torch.Tensor.fill_

        def wrong(tensor, value):
            fill(tensor, value)
            tensor[12345] ^= 1 << 40
            return tensor

        with mock.patch.object(torch.Tensor, "fill_", wrong):
            code, lines, _ = self.run_cpu()
        self.assertEqual(code, 1)
        self.assertEqual(lines["cpu memory"]["failed"], "1 words of 64 bits differ from what was written")

    def test_an_error_of_the_device_is_a_failure_with_its_first_line(self):
        with mock.patch.object(torch, "mm", side_effect=RuntimeError("CUDA error: device lost\nmore")):
            code, lines, _ = self.run_cpu()
        self.assertEqual(code, 1)
        self.assertEqual(lines["cpu"]["failed"], "CUDA error: device lost")

    def test_no_cuda_device_is_a_failure(self):
        with mock.patch.object(torch.cuda, "is_available", return_value=False), \
                mock.patch.object(device_check, "check_smi"):
            code, out, _ = call("--json")
        self.assertEqual(code, 1)
        self.assertEqual(json.loads(out)["failed"], "PyTorch finds no CUDA device")


if __name__ == "__main__":
    unittest.main()
