"""The container image of `tools/package image`: its format, and controller and agent inside of it.

usage: image_test.py BUILD_FOLDER

The tests of the built image need root, mmdebstrap, unshare, a Debian mirror and about two minutes.
They run with LONGHAUL_TEST_IMAGE=1 only.
"""
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools/packaging"))
import chroot
from image import containerfile, layout
from project import Failure, version

LIMIT_S = 600
DATE = 1_700_000_000

# What docs/install.md states, in one container.
USE = """
cd
longhaul --version
id -u
longhaul controller init controller --name localhost
longhaul controller --state-dir controller --rest 0.0.0.0:8443 --agents 0.0.0.0:8701 &
controller=$!
until [ -e controller/endpoint.json ]; do sleep 0.05; done
export LONGHAUL_ENDPOINT=$HOME/controller/endpoint.json
longhaul token create-join --node node-1 --out join.token
longhaul agent --controller localhost:8701 --join-token-file join.token --node node-1 --slots 2 \
  --state-dir agent &
agent=$!
cat > job.yaml <<'END'
name: inside
command: [python3, -c, 'import longhaul, os; longhaul.report(1); print("rank", os.environ["RANK"])']
resources: {nodes: 1, processes_per_node: 2}
END
until longhaul nodes | grep -q node-1; do sleep 0.05; done
longhaul submit job.yaml --watch
longhaul status inside --json
kill $agent
wait $agent || echo "agent ended with $?"
kill $controller
wait $controller || echo "controller ended with $?"
find . -type s
"""


def write_root(path, date=DATE, extra=()):
    """A small root file system in a tar, as mmdebstrap writes it."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as file:
        for name, content in (("./etc/hostname", b"builder\n"), ("./dev/null", b""),
                              ("./usr/bin/a", b"program"), *extra):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode, entry.uname = len(content), date, 0o755, "root"
            file.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo("./usr/bin/b")
        link.type, link.linkname = tarfile.LNKTYPE, "./usr/bin/a"
        file.addfile(link)


def read_archive(path):
    """The manifest, the configuration and the layer's tar of an archive; checks every digest."""
    with tarfile.open(path) as archive:
        def blob(descriptor):
            data = archive.extractfile("blobs/" + descriptor["digest"].replace(":", "/")).read()
            assert len(data) == descriptor["size"], descriptor
            assert "sha256:" + hashlib.sha256(data).hexdigest() == descriptor["digest"]
            return data

        assert json.load(archive.extractfile("oci-layout"))["imageLayoutVersion"] == "1.0.0"
        index = json.load(archive.extractfile("index.json"))
        manifest = json.loads(blob(index["manifests"][0]))
        config = json.loads(blob(manifest["config"]))
        layer = io.BytesIO(blob(manifest["layers"][0]))
        saved = json.load(archive.extractfile("manifest.json"))[0]
        for name in (saved["Config"], *saved["Layers"]):
            archive.getmember(name)
    return index["manifests"][0], config, layer


class LayoutTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="image-test-")
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)

    def write(self, name, **options):
        write_root(self.top / "root.tar", **options)
        layout.write_archive(self.top / "root.tar", {"User": "1:1"}, "localhost/a:1",
                             self.top / name, DATE, self.top)
        return self.top / name

    def test_every_digest_is_that_of_its_content(self):
        descriptor, config, layer = read_archive(self.write("image.tar"))
        self.assertEqual(descriptor["annotations"]["org.opencontainers.image.ref.name"],
                         "localhost/a:1")
        self.assertEqual(config["config"], {"User": "1:1"})
        self.assertEqual((config["os"], config["architecture"]), ("linux", "amd64"))
        with tarfile.open(fileobj=layer) as files:
            names = {member.name: member for member in files}
        self.assertEqual(sorted(names), ["usr/bin/a", "usr/bin/b"])
        self.assertEqual(names["usr/bin/b"].linkname, "usr/bin/a")

    def test_dates_and_names_of_the_building_machine_do_not_change_the_bytes(self):
        first = self.write("first.tar").read_bytes()
        again = self.write("again.tar", date=DATE + 100).read_bytes()
        self.assertTrue(first == again)
        self.assertFalse(first == self.write("other.tar", extra=[("./a", b"")]).read_bytes())


class ContainerfileTest(unittest.TestCase):
    def test_the_file_of_the_project_starts_longhaul_as_a_user_that_is_not_root(self):
        file = containerfile.parse((ROOT / "Containerfile").read_text())
        self.assertEqual(file.base, "docker.io/library/debian:12-slim")
        self.assertEqual(file.config["Entrypoint"], ["/usr/bin/longhaul"])
        self.assertEqual(file.config["User"], "10001:10001")
        self.assertEqual(sorted(file.config["ExposedPorts"]), ["8443/tcp", "8701/tcp"])
        self.assertEqual(file.config["Env"], ["HOME=/var/lib/longhaul"])
        self.assertEqual(len(file.script), 1)
        self.assertIn("useradd --uid 10001", file.script[0])

    def test_an_argument_replaces_its_default(self):
        text = "ARG BASE=a\nFROM ${BASE}\n"
        self.assertEqual(containerfile.parse(text, BASE="b").base, "b")

    def test_what_is_not_supported_is_named_with_its_line(self):
        for text, expected in (("FROM a\n\nHEALTHCHECK \\\n x\n", "Containerfile:3: HEALTHCHECK x"),
                               ("FROM a\nCMD x\n", "Containerfile:2: CMD x"),
                               ("FROM ${B}\n", "Containerfile:1: FROM ..B."),
                               ("RUN a \\\n b\n", "Containerfile: there is no FROM")):
            with self.assertRaisesRegex(Failure, expected):
                containerfile.parse(text)


class ImageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if reason := chroot.reason_to_skip("LONGHAUL_TEST_IMAGE", "build the image", "strip"):
            raise unittest.SkipTest(reason)
        temporary = tempfile.TemporaryDirectory(prefix="image-test-")
        cls.addClassCleanup(temporary.cleanup)
        cls.top = pathlib.Path(temporary.name)
        cls.archive = cls.build(cls.top / "dist")
        _, cls.config, layer = read_archive(cls.archive)
        with tarfile.open(fileobj=layer) as files:
            files.extractall(cls.top / "root")

    @classmethod
    def build(cls, output):
        done = subprocess.run(
            [sys.executable, "-B", ROOT / "tools/package", "image", "--from-packages", "--build",
             sys.build, "--output", output], stdin=subprocess.DEVNULL, text=True,
            capture_output=True, timeout=LIMIT_S, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return pathlib.Path(done.stdout.strip())

    def test_controller_agent_and_job_run_inside_without_a_network(self):
        config = self.config["config"]
        done = chroot.run(self.top / "root", [*config["Env"], "sh", "-euc", USE], config["User"])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(done.stdout.startswith(f"longhaul {version()}\n10001\n"), done.stdout)
        self.assertIn('"state": "succeeded"', done.stdout)
        self.assertNotRegex(done.stdout, "(agent|controller) ended with")
        self.assertNotIn(".sock", done.stdout)

    def test_the_image_has_nothing_of_the_building_machine(self):
        root = self.top / "root"
        for path in ("etc/hostname", "etc/resolv.conf", "opt/longhaul-package", "etc/passwd-"):
            self.assertFalse((root / path).exists(), path)
        self.assertEqual(list((root / "var/log").iterdir()), [])
        facts, = (root / "opt/longhaul").glob("longhaul-*.dist-info")
        self.assertTrue((facts / "licenses" / "LICENSE").is_file())
        self.assertEqual(list((root / "opt/longhaul").glob("*.data")), [])
        self.assertFalse((root / "usr/bin/longhaul-trainer").exists())

    def test_its_folder_runs_wherever_it_is_copied(self):
        """As an init container of a LonghaulJob copies it into the image of the workers."""
        root = self.top / "root"
        self.assertEqual(os.readlink(root / "opt/longhaul/bin"), "longhaul/bin")
        for name in ("longhaul", "longhaul-tools", "longhaul-kube"):
            self.assertTrue(os.access(root / "opt/longhaul/bin" / name, os.X_OK), name)
        done = chroot.run(root, [*self.config["config"]["Env"], "sh", "-euc", """
mkdir /tmp/program && cp -R /opt/longhaul/. /tmp/program
/tmp/program/bin/longhaul kube schedule --help
ldd /tmp/program/bin/longhaul-kube
"""], self.config["config"]["User"])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("--leader-election", done.stdout)
        loaded = [line.split("=>")[1].split()[0] for line in done.stdout.splitlines()
                  if "=>" in line]
        self.assertNotIn("not", loaded)
        bundled = [path for path in loaded if path.startswith("/tmp/program/")]
        self.assertGreater(len(bundled), 20, loaded)
        # What images of Debian, Ubuntu and Red Hat have.
        self.assertEqual({pathlib.Path(path).name for path in loaded if path not in bundled},
                         {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "libz.so.1",
                          "libresolv.so.2"})

    def test_a_second_build_yields_the_same_bytes(self):
        self.assertTrue(self.build(self.top / "again").read_bytes() == self.archive.read_bytes())

    def test_other_tools_read_the_archive(self):
        if shutil.which("skopeo") is None:
            self.skipTest("skopeo is not installed")
        done = subprocess.run(["skopeo", "inspect", f"oci-archive:{self.archive}"],
                              stdin=subprocess.DEVNULL, text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["Labels"]["org.opencontainers.image.version"],
                         version())


if __name__ == "__main__":
    sys.build = os.path.abspath(sys.argv.pop(1))
    unittest.main()
