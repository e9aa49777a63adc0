"""Translated jobs of other operators at the real kube-apiserver: they are stored as printed.

  import_server_test.py LONGHAUL
"""

import json
import pathlib
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from api_server import ROOT, ApiServer, folder_for, programs_or_skip
from longhauljob_test import JOBS, STRICT, install_definition

LONGHAUL = None
EXAMPLES = ROOT / "src" / "engines" / "kubernetes" / "testdata" / "kube_import_fuzz"
FILES = ["pytorch-ddp.yaml", "pytorch-elastic.yaml", "train-job.yaml", "train-job-alone.yaml",
         "elastic-job.yaml", "list.json"]


def run_import(*words, text=None):
    return subprocess.run([LONGHAUL, "kube", "import", *map(str, words)], capture_output=True,
                          text=True, input=text, timeout=60)


class AtTheServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        binaries = programs_or_skip("kube-apiserver", "etcd")
        cls.server = cls.enterClassContext(ApiServer(binaries, folder_for(cls)))
        install_definition(cls.server)

    def post(self, body, content_type):
        status, made = self.server.send("POST", JOBS + STRICT, body, content_type)
        self.assertEqual(status, 201, made)
        self.addCleanup(self.server.send, "DELETE", f"{JOBS}/{made['metadata']['name']}")
        return made

    def test_each_kind_is_accepted_as_it_is_printed(self):
        for name in FILES:
            with self.subTest(file=name):
                done = run_import(EXAMPLES / name, "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                for job in json.loads(done.stdout)["items"]:
                    job["metadata"].setdefault("namespace", "default")
                    made = self.post(job, "application/json")
                    # Only defaults are added: nothing is dropped or changed.
                    spec = {"suspend": False, **job["spec"],
                            "workers": {"step": 1, **job["spec"]["workers"]}}
                    self.assertEqual(made["spec"], spec)
                    for key, value in job["metadata"].items():
                        self.assertEqual(made["metadata"][key], value)

    def test_yaml_is_read_by_the_server_as_the_json(self):
        for name in FILES:
            with self.subTest(file=name):
                as_json = json.loads(run_import(EXAMPLES / name, "--json").stdout)["items"]
                as_yaml = run_import(EXAMPLES / name).stdout.split("---\n")
                self.assertEqual(len(as_yaml), len(as_json))
                for job, text in zip(as_json, as_yaml):
                    made = self.post(text, "application/yaml")
                    self.assertEqual(made["spec"]["template"], job["spec"]["template"])
                    self.assertEqual(made["spec"]["job"], job["spec"]["job"])
                    self.server.send("DELETE", f"{JOBS}/{job['metadata']['name']}")


class Command(unittest.TestCase):
    def test_report_is_on_standard_error_or_in_the_json(self):
        done = run_import(EXAMPLES / "pytorch-ddp.yaml")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("apiVersion: longhaul.dev/v1\n"), done.stdout)
        path = "spec.runPolicy.ttlSecondsAfterFinished"
        self.assertIn(f"  {path}: not translated: a LonghaulJob stays", done.stderr)
        done = run_import("--json", EXAMPLES / "pytorch-ddp.yaml")
        self.assertEqual(done.stderr, "")
        printed = json.loads(done.stdout)
        self.assertEqual((printed["apiVersion"], printed["kind"]), ("v1", "List"))
        self.assertIn(path, [each["path"] for each in printed["dropped"]])

    def test_strict_fails_and_prints_no_manifest(self):
        output = folder_for(type(self)) / "job.yaml"
        for words in ([], ["--json"], ["--output", output]):
            done = run_import(EXAMPLES / "pytorch-ddp.yaml", "--strict", *words)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("2 parts are not translated (--strict)", done.stderr)
            self.assertIn("spec.runPolicy.activeDeadlineSeconds", done.stderr)
        self.assertFalse(output.exists())
        small = ("{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: a}, spec: "
                 "{pytorchReplicaSpecs: {Worker: {template: {spec: {containers: "
                 "[{name: pytorch, image: i, command: [a]}]}}}}}}")
        done = run_import("-", "--strict", text=small)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_output_is_written_to_a_file(self):
        output = folder_for(type(self)) / "job.yaml"
        done = run_import(EXAMPLES / "train-job.yaml", "-o", output)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertIn("name: fine-tune\n", output.read_text())
        self.assertIn("spec.initializer.dataset: not translated", done.stderr)
        done = run_import(EXAMPLES / "train-job.yaml", "-o", output.parent / "missing" / "job.yaml")
        self.assertEqual(done.returncode, 1)

    def test_files_are_read_together_and_one_from_standard_input(self):
        runtime, job = (EXAMPLES / "train-job.yaml").read_text().split("---\n")
        other = folder_for(type(self)) / "runtime.yaml"
        other.write_text(runtime)
        done = run_import("-", other, text=job)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("standard input: document 1: TrainJob default/fine-tune", done.stderr)
        self.assertIn("runtime.yaml: document 1: ClusterTrainingRuntime torch-dis", done.stderr)

    def test_failures_and_wrong_use_have_their_exit_codes(self):
        big = folder_for(type(self)) / "big.yaml"
        big.write_text("#" * (4 * 2**20 + 1))
        for words, code, message in [
                ([], 2, "FILE is required"),
                (["--no-such", "a"], 2, "--no-such"),
                (["-", "-"], 2, "once at most"),
                (["missing.yaml"], 1, "missing.yaml"),
                (["/"], 1, "longhaul: "),
                ([big], 1, "big.yaml"),
                ([EXAMPLES / "aliases.yaml"], 1, "aliases.yaml:6: the file has more than 200,000"),
                (["-"], 1, "no training job found")]:
            with self.subTest(words=words):
                done = run_import(*words, text="")
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertIn(message, done.stderr)


if __name__ == "__main__":
    LONGHAUL = sys.argv.pop(1)
    unittest.main()
