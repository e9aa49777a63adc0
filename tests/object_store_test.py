"""The agent's copies to an object store, over HTTP to a server that checks every signature itself.

usage: object_store_test.py AGENT_THREADS_TEST

The cases are those of src/service/agent/copy_worker_test.cc; here their second tier is the store of
tests/s3_server.py.
"""
import os
import subprocess
import sys
import unittest

import s3_server

SECRET = "a secret that nobody must see/+="


class ObjectStore(unittest.TestCase):
    def setUp(self):
        self.store = s3_server.Store("AKIATEST", SECRET)
        self.addCleanup(self.store.close)

    def run_cases(self, **environment):
        return subprocess.run(
            [PROGRAM, "--gtest_filter=CopyWorkerTest.*"], text=True, capture_output=True, timeout=60,
            env={**os.environ, "AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": SECRET,
                 "AWS_ENDPOINT_URL": self.store.endpoint, "AWS_REGION": "us-east-1",
                 "LONGHAUL_COPY_TO": "s3://models/some prefix/ü", **environment})

    def test_a_store_that_checks_every_signature_serves(self):
        done = self.run_cases()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("OK ] CopyWorkerTest.WhatTheDiskLosesComesBackBitForBit", done.stdout)
        self.assertEqual((self.store.refused, self.store.uploads), (0, {}))
        keys = list(self.store.objects)
        self.assertTrue(any(key.endswith("/step-000000030.e1/MANIFEST") for key in keys), keys)
        self.assertFalse(any("step-000000010" in key for key in keys), "pruned there too")
        methods = {method for method, _ in self.store.requests}
        self.assertEqual(methods, {"GET", "HEAD", "PUT", "DELETE"})

    def test_a_wrong_key_is_refused_and_no_key_is_shown(self):
        for name, value, reported in [("AWS_SECRET_ACCESS_KEY", "wrong/+=", "SignatureDoesNotMatch"),
                                  ("AWS_ACCESS_KEY_ID", "AKIAOTHER", "InvalidAccessKeyId"),
                                  ("AWS_REGION", "eu-west-1", "InvalidAccessKeyId")]:
            with self.subTest(name):
                done = self.run_cases(**{name: value})
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(reported, done.stdout)
                for secret in (SECRET, "wrong/+=", "AKIATEST", "AKIAOTHER"):
                    self.assertNotIn(secret, done.stdout + done.stderr)
                self.assertEqual(self.store.objects, {})


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
