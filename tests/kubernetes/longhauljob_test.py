"""The resource LonghaulJob at the real kube-apiserver: what is accepted, and what is refused.

  longhauljob_test.py
"""

import copy
import pathlib
import re
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from api_server import ROOT, ApiServer, folder_for, programs_or_skip

DEFINITION = ROOT / "deploy" / "kubernetes" / "crd" / "longhauljob.yaml"
PAGE = ROOT / "docs" / "longhauljob.md"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JOBS = "/apis/longhaul.dev/v1/namespaces/default/longhauljobs"
STRICT = "?fieldValidation=Strict"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
SMALLEST = {"workers": {"desired": 4}, "job": {"command": ["true"]}}
NAME_LIMIT = 40
CONDITION = {"type": "Running", "status": "True", "reason": "Started",
             "lastTransitionTime": "2026-01-31T08:00:00Z"}


def merged(value, change):
    """A JSON merge patch, which leaves its arguments alone."""
    if not isinstance(change, dict):
        return change
    result = copy.deepcopy(value) if isinstance(value, dict) else {}
    for key, each in change.items():
        if each is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), each)
    return result


def conditions_of(server, name):
    """The conditions of a definition: their types with their statuses."""
    _, definition = server.send("GET", f"{DEFINITIONS}/{name}")
    conditions = definition.get("status", {}).get("conditions", [])
    return {each["type"]: each["status"] for each in conditions}


def install_definition(server):
    """Adds LonghaulJob to a server, and returns the name of the definition when it is served."""
    status, made = server.send("POST", DEFINITIONS + STRICT, DEFINITION.read_text(),
                               "application/yaml")
    if status != 201:
        raise AssertionError(made)
    name = made["metadata"]["name"]
    deadline = time.monotonic() + 20
    while conditions_of(server, name).get("Established") != "True":
        if time.monotonic() > deadline:
            raise AssertionError(conditions_of(server, name))
        time.sleep(0.05)
    # Served a moment after it is established.
    while server.send("GET", JOBS)[0] != 200:
        if time.monotonic() > deadline:
            raise AssertionError("the resource is not served")
        time.sleep(0.05)
    return name


class LonghaulJob(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        binaries = programs_or_skip("kube-apiserver", "etcd")
        cls.server = cls.enterClassContext(ApiServer(binaries, folder_for(cls)))
        cls.name = install_definition(cls.server)

    @classmethod
    def conditions(cls):
        return conditions_of(cls.server, cls.name)

    def object(self, spec, name=None):
        usual = self._testMethodName.removeprefix("test_").replace("_", "-")[:NAME_LIMIT]
        self.made = name or usual.strip("-")
        return {"apiVersion": "longhaul.dev/v1", "kind": "LonghaulJob",
                "metadata": {"name": self.made}, "spec": spec}

    def make(self, change=None, name=None):
        status, made = self.server.send("POST", JOBS + STRICT,
                                        self.object(merged(SMALLEST, change or {}), name))
        self.assertEqual(status, 201, made)
        return made

    def patch(self, change, subresource="", expect=200):
        status, done = self.server.send("PATCH", f"{JOBS}/{self.made}{subresource}{STRICT}",
                                        change, MERGE)
        self.assertEqual(status, expect, done)
        return done

    def assert_refused(self, spec, message, code=422, name="refused"):
        status, done = self.server.send("POST", JOBS + STRICT, self.object(spec, name))
        self.assertEqual(status, code, done)
        self.assertIn(message, done["message"])
        self.assertNotIn("evaluating rule", done["message"])  # a rule that failed by itself

    def test_schema_is_structural_and_its_names_are_accepted(self):
        conditions = self.conditions()
        self.assertEqual(conditions["NamesAccepted"], "True")
        self.assertNotIn("NonStructuralSchema", conditions)
        _, found = self.server.send("GET", "/apis/longhaul.dev/v1")
        names = {each["name"]: each for each in found["resources"]}
        self.assertEqual(sorted(names),
                         ["longhauljobs", "longhauljobs/scale", "longhauljobs/status"])
        self.assertEqual(names["longhauljobs"]["shortNames"], ["lhj"])

    def test_example_of_the_page_is_accepted(self):
        example = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL).group(1)
        status, made = self.server.send("POST", JOBS + STRICT, example, "application/yaml")
        self.assertEqual(status, 201, made)
        self.assertIs(made["spec"]["suspend"], False)
        # What the schema does not describe is kept as it came.
        self.assertEqual(made["spec"]["job"], {"command": ["python3", "train.py"]})
        self.assertEqual(made["spec"]["template"]["spec"]["containers"][0]["name"], "worker")

    def test_smallest_job_gets_the_defaults(self):
        made = self.make()
        self.assertEqual(made["spec"], {**SMALLEST, "suspend": False,
                                        "workers": {"desired": 4, "step": 1}})
        self.assertEqual(made["metadata"]["generation"], 1)

    def test_limits_themselves_are_accepted(self):
        for number, change in enumerate([
                {"workers": {"min": 4, "max": 4, "step": 4}},
                {"workers": {"min": 1, "desired": 100000, "max": 100000}},
                {"queue": "q" * 63, "managedBy": "longhaul.dev/operator", "suspend": True},
                {"devices": {"resource": "amd.com/gpu", "perWorker": 1024}},
                {"devices": {"resource": "nvidia.com/mig-1g.10gb", "perWorker": 1}},
                {"job": {str(each): {"a": [1, {"b": None}]} for each in range(99)}},
                {"runDirectory": "/a"},
                {"runDirectory": "/" + "x" * 4095},
                {"runDirectory": "/mnt/shared/my runs/å/.hidden"},
                {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"any": [{}]}}}]):
            with self.subTest(change=str(change)[:80]):
                self.make(change, f"limit-{number}")

    def test_each_mistake_is_refused_by_name(self):
        long = "x" * 64
        for change, message in [
                ({"workers": {"min": 5}},
                 "spec.workers.min: Invalid value: min must not be more than desired"),
                ({"workers": {"max": 3}},
                 "spec.workers.max: Invalid value: max must not be less than desired"),
                ({"workers": {"min": 5, "max": 3}}, "min must not be more than desired"),
                ({"workers": {"step": 3}}, "spec.workers.step: Invalid value: min, desired and max "
                                           "must be multiples of step"),
                ({"workers": {"step": 2, "min": 3}}, "must be multiples of step"),
                ({"workers": {"step": 2, "max": 5}}, "must be multiples of step"),
                ({"workers": None}, "spec.workers: Required value"),
                ({"workers": {"desired": None}}, "spec.workers.desired: Required value"),
                ({"workers": {"desired": 0}}, "spec.workers.desired in body should be greater than "
                                              "or equal to 1"),
                ({"workers": {"desired": 100001}}, "spec.workers.desired in body should be less "
                                                   "than or equal to 100000"),
                ({"workers": {"desired": 10 ** 18}}, "should be less than or equal to 100000"),
                ({"workers": {"desired": "4"}}, "spec.workers.desired in body must be of type "
                                                "integer: \"string\""),
                ({"workers": {"desired": 4.5}}, "spec.workers.desired in body must be of type "
                                                "integer: \"number\""),
                ({"workers": 4}, "spec.workers in body must be of type object"),
                ({"workers": {"min": 0}}, "spec.workers.min in body should be greater than"),
                ({"workers": {"step": 0}}, "spec.workers.step in body should be greater than"),
                ({"queue": long}, "spec.queue: Too long: may not be more than 63 bytes"),
                ({"queue": ""}, "spec.queue in body should be at least 1 chars long"),
                ({"queue": "A b"}, "spec.queue in body should match"),
                ({"suspend": "yes"}, "spec.suspend in body must be of type boolean"),
                ({"managedBy": "me"}, "spec.managedBy in body should match"),
                ({"devices": {"perWorker": 8}}, "spec.devices.resource: Required value"),
                ({"devices": {"resource": "a.b/c"}}, "spec.devices.perWorker: Required value"),
                ({"devices": {"resource": "gpu", "perWorker": 8}},
                 "spec.devices.resource in body should match"),
                ({"devices": {"resource": "a.b/c", "perWorker": 1025}},
                 "spec.devices.perWorker in body should be less than or equal to 1024"),
                ({"job": None}, "spec.job: Required value"),
                ({"job": "name: a"}, "spec.job in body must be of type object"),
                ({"job": {"command": None}}, "spec.job: Invalid value"),
                ({"job": {str(each): 1 for each in range(101)}}, "spec.job: Too many"),
                ({"runDirectory": "runs/tune"}, "spec.runDirectory in body should match"),
                ({"runDirectory": "~/tune"}, "spec.runDirectory in body should match"),
                ({"runDirectory": "/runs/"}, "spec.runDirectory in body should match"),
                ({"runDirectory": "/"}, "spec.runDirectory in body should match"),
                ({"runDirectory": ""}, "spec.runDirectory in body should match"),
                ({"runDirectory": "/a\0b"}, "spec.runDirectory in body should match"),
                ({"runDirectory": "/" + "x" * 4096},
                 "spec.runDirectory: Too long: may not be more than 4096 bytes"),
                ({"runDirectory": ["/a"]}, "spec.runDirectory in body must be of type string"),
                ({"template": []}, "spec.template in body must be of type object"),
        ]:
            with self.subTest(change=str(change)[:80]):
                self.assert_refused(merged(SMALLEST, change), message)

    def test_names_leave_room_for_those_of_the_pods(self):
        for name in ("a", "7", "a-1", "x" * NAME_LIMIT):
            self.make(name=name)
        for name in ("x" * (NAME_LIMIT + 1), "x" * 253, "a.b", "v1.2"):
            with self.subTest(name=name):
                self.assert_refused(SMALLEST, "metadata.name must have at most 40 of a-z, 0-9 and "
                                    "'-', as pods are named after it", name=name)
        # By the rules of every resource.
        for name in ("A", "a_b", "-a"):
            with self.subTest(name=name):
                self.assert_refused(SMALLEST, f'metadata.name: Invalid value: "{name}"', name=name)

    def test_page_has_a_row_for_each_field(self):
        _, definition = self.server.send("GET", f"{DEFINITIONS}/{self.name}")
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        fields = {"metadata.name"}
        for name, each in schema["properties"]["spec"]["properties"].items():
            fields |= {f"{name}.{inner}" for inner in each.get("properties", {})} or {name}
        table = re.search(r"^\| field \|.*\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE).group(1)
        rows = [line.split("|")[1] for line in table.splitlines()]
        self.assertEqual(sorted(re.findall(r"`([^`]+)`", " ".join(rows))), sorted(fields))

    def test_unknown_fields_are_refused_where_the_schema_is_complete(self):
        for change, path in [({"quue": "a"}, "spec.quue"),
                             ({"workers": {"maximum": 4}}, "spec.workers.maximum"),
                             ({"devices": {"resource": "a.b/c", "perWorker": 1, "count": 2}},
                              "spec.devices.count")]:
            with self.subTest(path=path):
                self.assert_refused(merged(SMALLEST, change), f'unknown field "{path}"', 400)

    def test_huge_objects_are_refused(self):
        # By the storage. From 3 MiB on the server refuses the request without reading it.
        self.assert_refused(merged(SMALLEST, {"job": {"text": "x" * 1_700_000}}), "too large", 500)

    def test_manager_never_changes(self):
        self.make({"managedBy": "a.b/c"})
        for change in ("x.y/z", None):
            done = self.patch({"spec": {"managedBy": change}}, expect=422)
            self.assertIn("spec.managedBy: Invalid value: managedBy must not change",
                          done["message"])
        self.patch({"spec": {"suspend": True}})
        self.make(name="manager-added")
        self.patch({"spec": {"managedBy": "a.b/c"}}, expect=422)

    def test_scale_changes_the_desired_workers_within_the_rules(self):
        self.make({"workers": {"min": 2, "max": 8, "step": 2}})
        self.patch({"status": {"ready": 3, "selector": "job=a"}}, "/status")
        _, scale = self.server.send("GET", f"{JOBS}/{self.made}/scale")
        self.assertEqual(scale["spec"], {"replicas": 4})
        self.assertEqual(scale["status"], {"replicas": 3, "selector": "job=a"})
        self.patch({"spec": {"replicas": 6}}, "/scale")
        _, job = self.server.send("GET", f"{JOBS}/{self.made}")
        self.assertEqual(job["spec"]["workers"]["desired"], 6)
        for replicas, message in [(10, "max must not be less than desired"),
                                  (5, "must be multiples of step")]:
            done = self.patch({"spec": {"replicas": replicas}}, "/scale", expect=422)
            self.assertIn(message, done["message"])

    def test_status_is_a_subresource(self):
        made = self.make()
        done = self.patch({"status": {"phase": "Running"}, "spec": {"suspend": True}}, "/status")
        self.assertEqual((done["status"], done["spec"]["suspend"]), ({"phase": "Running"}, False))
        self.assertEqual(done["metadata"]["generation"], made["metadata"]["generation"])
        done = self.patch({"status": {"phase": "Failed"}, "spec": {"suspend": True}})
        self.assertEqual((done["status"], done["spec"]["suspend"]), ({"phase": "Running"}, True))
        self.assertEqual(done["metadata"]["generation"], 2)

    def test_status_is_checked(self):
        self.make()
        for status, message in [
                ({"phase": "Lost"}, 'status.phase: Unsupported value: "Lost"'),
                ({"ready": -1}, "ready in body should be greater than or equal to 0"),
                ({"ready": 2 ** 31}, "status.ready"),
                ({"goodput": 1.01}, "goodput in body should be less than or equal to 1"),
                ({"conditions": [{**CONDITION, "status": "Yes"}]},
                 'status.conditions[0].status: Unsupported value: "Yes"'),
                ({"conditions": [{**CONDITION, "reason": ""}]}, "status.conditions[0].reason"),
                ({"conditions": [CONDITION, CONDITION]},
                 'status.conditions[1]: Duplicate value: {"type":"Running"}')]:
            with self.subTest(status=status):
                done = self.patch({"status": status}, "/status", expect=422)
                self.assertIn(message, done["message"])

    def test_managers_apply_conditions_of_different_types(self):
        self.make()
        for manager, kind in (("one", "Running"), ("two", "Placed")):
            status, done = self.server.send(
                "PATCH", f"{JOBS}/{self.made}/status?fieldManager={manager}",
                {"apiVersion": "longhaul.dev/v1", "kind": "LonghaulJob",
                 "metadata": {"name": self.made},
                 "status": {"conditions": [{**CONDITION, "type": kind}]}}, APPLY)
            self.assertEqual(status, 200, done)
        self.assertEqual([each["type"] for each in done["status"]["conditions"]],
                         ["Running", "Placed"])

    def test_table_has_the_columns(self):
        self.make({"queue": "table"})
        self.patch({"status": {"phase": "Running", "ready": 3, "goodput": 0.97}}, "/status")
        _, table = self.server.send(
            "GET", f"{JOBS}/{self.made}",
            accept="application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
        self.assertEqual([each["name"] for each in table["columnDefinitions"]],
                         ["Name", "Phase", "Ready", "Desired", "Queue", "Goodput", "Age"])
        self.assertEqual(table["rows"][0]["cells"][:6],
                         [self.made, "Running", 3, 4, "table", 0.97])

    def test_jobs_are_selected_by_queue(self):
        self.make({"queue": "red"}, "selected-red")
        self.make({"queue": "blue"}, "selected-blue")
        _, found = self.server.send("GET", f"{JOBS}?fieldSelector=spec.queue%3Dred")
        self.assertEqual([each["metadata"]["name"] for each in found["items"]], ["selected-red"])


if __name__ == "__main__":
    unittest.main()
