"""The client and the real kube-apiserver: the transcript of the exchanges is the recorded one.

  server_test.py EXCHANGES [--update]

EXCHANGES is the built program kubernetes_exchanges. With --update the recording is replaced by what
the server answers now. The double is compared with the same recording (double_test.cc).
"""

import base64
import difflib
import pathlib
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from api_server import ROOT, TOKEN, ApiServer, folder_for, programs_or_skip

RECORDED = ROOT / "src" / "engines" / "kubernetes" / "testdata" / "transcript.txt"
EXCHANGES = None
# A short interval, so that versions expire within the test.
COMPACTION = "--etcd-compaction-interval=5s"


class Server(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        binaries = programs_or_skip("kube-apiserver", "etcd")
        cls.folder = folder_for(cls)
        cls.make_client_certificate()
        cls.server = cls.enterClassContext(ApiServer(
            binaries, cls.folder, flags=[COMPACTION, f"--client-ca-file={cls.folder}/ca.pem"]))

    @classmethod
    def make_client_certificate(cls):
        """An authority, and a certificate of it for a member of system:masters."""
        def openssl(*words):
            subprocess.run(["openssl", *words], cwd=cls.folder, check=True, capture_output=True)
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=ca",
                "-keyout", "ca.key", "-out", "ca.pem")
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/O=system:masters/CN=alice",
                "-keyout", "alice.key", "-out", "alice.csr")
        openssl("x509", "-req", "-days", "2", "-in", "alice.csr", "-CA", "ca.pem", "-CAkey",
                "ca.key", "-CAcreateserial", "-out", "alice.pem")

    def get(self, cluster="", user=f"token: {TOKEN}", host="127.0.0.1"):
        """One GET of a list that requires an account, with this kubeconfig."""
        authority = f", certificate-authority: {self.server.authority}"
        cluster += "" if "authority" in cluster else authority
        path = self.folder / "variant"
        path.write_text(f"""current-context: c
contexts: [{{name: c, context: {{cluster: k, user: u}}}}]
clusters:
- name: k
  cluster: {{server: "https://{host}:{self.server.port}"{cluster}}}
users: [{{name: u, user: {{{user}}}}}]
""")
        return subprocess.run([EXCHANGES, path, "/api/v1/nodes"], capture_output=True, text=True,
                              timeout=60)

    def assert_works(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"kind":"NodeList"', done.stdout)

    def test_answers_as_recorded(self):
        done = subprocess.run([EXCHANGES, self.server.kubeconfig], capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        if "--update" in sys.argv:
            RECORDED.write_text(done.stdout)
            return
        difference = list(difflib.unified_diff(RECORDED.read_text().splitlines(),
                                               done.stdout.splitlines(), "recorded", "answered",
                                               lineterm=""))
        self.assertEqual(difference, [], "\n".join(difference[:60]) +
                         "\nif the change is intended: tests/kubernetes/server_test.py --update")

    def test_name_in_the_certificate_is_verified(self):
        self.assert_works(self.get(", tls-server-name: kubernetes.default"))
        # The certificate that the server makes for itself has its address, but not this name.
        for done in (self.get(host="localhost"), self.get(", tls-server-name: other.example")):
            self.assertEqual(done.returncode, 1)
            self.assertIn("the certificate of the API server is refused", done.stderr)

    def test_authority_of_the_certificate_is_verified(self):
        done = self.get(f", certificate-authority: {self.folder}/ca.pem")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the certificate of the API server is refused", done.stderr)
        self.assert_works(self.get(
            f", insecure-skip-tls-verify: true, certificate-authority: {self.folder}/ca.pem"))

    def test_client_certificate_authenticates(self):
        self.assert_works(self.get(user=f"client-certificate: {self.folder}/alice.pem, "
                                        f"client-key: {self.folder}/alice.key"))
        files = [(self.folder / name).read_bytes() for name in ("alice.pem", "alice.key")]
        data = [base64.b64encode(each).decode() for each in files]
        self.assert_works(self.get(
            user=f"client-certificate-data: {data[0]}, client-key-data: {data[1]}"))

    def test_plugin_authenticates(self):
        plugin = self.folder / "plugin"
        plugin.write_text(f"""#!/bin/sh
echo '{{"apiVersion": "client.authentication.k8s.io/v1", "status": {{"token": "{TOKEN}"}}}}'
""")
        plugin.chmod(0o700)
        self.assert_works(self.get(
            user="exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin}"))

    def test_wrong_token_is_refused_and_not_printed(self):
        done = self.get(user="token: wrong-secret")
        self.assertEqual(done.returncode, 1)
        self.assertIn("HTTP 401 Unauthorized", done.stderr)
        self.assertNotIn("wrong-secret", done.stderr)


if __name__ == "__main__":
    EXCHANGES = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1])
