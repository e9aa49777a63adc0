"""The object store's transfers beside libcurl alone, with the same signature, on a real S3 server.

usage: s3.py --versitygw PROGRAM [--pairs N] [--objects N] [--mib N] [--connections N]
       s3.py --bucket NAME [...]     a server of your own: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, ...

Each round puts the objects and gets them, by our Store from as many threads as there are
connections, by our files from one thread, and by libcurl alone: a multi handle on one thread, and
an easy handle a thread. Rounds go through these in turn, forwards and backwards. Printed are
medians, and medians of the ratios within a round. versitygw comes by
`go install github.com/versity/versitygw/cmd/versitygw@v1.8.0`; its objects lie in --folder
(default: /dev/shm), and its own CPU time is not counted.
"""
import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HOWS = ["store", "multi", "easy", "files"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(port, server):
    for _ in range(200):
        if server.poll() is not None:
            sys.exit(f"versitygw ended with {server.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit("versitygw does not listen after 10 s")


class Versity:
    """A versitygw over a folder of its own, until the end of the block."""

    def __init__(self, program, folder):
        self.program, self.parent = program, folder

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="longhaul-s3-", dir=self.parent)
        os.mkdir(os.path.join(self.folder, "bench-bucket"))
        port = free_port()
        keys = {"access": "AKIABENCH", "secret": "bench-secret"}
        self.server = subprocess.Popen(
            [self.program, "--quiet", "--keep-alive", "--port", f"127.0.0.1:{port}",
             "--access", keys["access"], "--secret", keys["secret"], "posix", self.folder],
            stdout=subprocess.DEVNULL)
        wait_for(port, self.server)
        os.environ.update({"AWS_ACCESS_KEY_ID": keys["access"], "AWS_REGION": "us-east-1",
                           "AWS_SECRET_ACCESS_KEY": keys["secret"],
                           "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"})
        return "bench-bucket"

    def __exit__(self, *_):
        self.server.terminate()
        self.server.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Own:
    def __init__(self, bucket):
        self.bucket = bucket

    def __enter__(self):
        return self.bucket

    def __exit__(self, *_):
        pass


def run(args, how, operation, bucket):
    done = subprocess.run([args.program, how, operation, bucket, str(args.objects), str(args.mib),
                           str(args.connections)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{how} {operation}: {done.stderr}")
    return json.loads(done.stdout)


def show(args, results):
    print(f"{args.objects} objects of {args.mib} MiB, {args.connections} connections, "
          f"{args.pairs} rounds, load {os.getloadavg()[0]:.1f}; medians")
    print(f"{'':12} {'MiB/s':>8} {'CPU s/GiB':>10} {'rate over multi':>16} {'easy':>6} "
          f"{'CPU over multi':>15} {'easy':>6}")
    for operation in ("put", "get"):
        for how in HOWS:
            rows = results[operation, how]

            def ratio(field, other):
                return statistics.median(
                    mine[field] / theirs[field]
                    for mine, theirs in zip(rows, results[operation, other]))

            rate = statistics.median(row["mib_per_s"] for row in rows)
            cpu = statistics.median(row["cpu_s_per_gib"] for row in rows)
            ratios = [ratio(field, other) for field in ("mib_per_s", "cpu_s_per_gib")
                      for other in ("multi", "easy")]
            print(f"{operation} {how:8} {rate:8.0f} {cpu:10.2f} {ratios[0]:16.2f} "
                  f"{ratios[1]:6.2f} {ratios[2]:15.2f} {ratios[3]:6.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    server = parser.add_mutually_exclusive_group(required=True)
    server.add_argument("--versitygw", help="its program, started for this run")
    server.add_argument("--bucket", help="a bucket that is there, of the environment's server")
    parser.add_argument("--folder", default="/dev/shm", help="where versitygw keeps objects")
    parser.add_argument("--program", default="build/release/src/objects/s3_bench")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--objects", type=int, default=16)
    parser.add_argument("--mib", type=int, default=16)
    parser.add_argument("--connections", type=int, default=8)
    args = parser.parse_args()
    results = {(operation, how): [] for operation in ("put", "get") for how in HOWS}
    with (Versity(args.versitygw, args.folder) if args.versitygw else Own(args.bucket)) as bucket:
        run(args, "multi", "put", bucket)  # so that each round finds the objects there
        for each in range(args.pairs):
            for operation in ("put", "get"):
                for how in HOWS if each % 2 == 0 else reversed(HOWS):
                    results[operation, how].append(run(args, how, operation, bucket))
    show(args, results)


if __name__ == "__main__":
    main()
