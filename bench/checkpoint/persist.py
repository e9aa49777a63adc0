#!/usr/bin/env python3
"""How much of a disk's speed a checkpoint reaches: fio and ours, taking turns on one file system.

fio writes a file of the same size past the page cache with io_uring and syncs it; ours verifies a
snapshot's hashes, writes the shard, syncs it, renames it and syncs the folder. Prints the median of
the ratios of pairs. Needs the Debian package fio.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def fio(folder, mib, block, depth):
    """Seconds of fio for the whole file, its last sync included."""
    done = subprocess.run(
        ["fio", "--name=w", f"--filename={folder}/fio.dat", "--rw=write", "--direct=1",
         "--ioengine=io_uring", f"--bs={block}", f"--iodepth={depth}", f"--size={mib}M",
         "--end_fsync=1", "--fallocate=posix", "--unlink=1", "--output-format=json"],
        check=True, capture_output=True, text=True, cwd=folder)
    write = json.loads(done.stdout)["jobs"][0]["write"]
    return write["io_bytes"] / write["bw_bytes"]


def ours(program, folder, mib, *extra):
    done = subprocess.run([program, folder, str(mib), *extra], check=True, capture_output=True,
                          text=True)
    return float(done.stdout.split()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    parser.add_argument("--folder", default=".", help="where to write; the disk that is measured")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--block", default="4M")
    parser.add_argument("--depth", type=int, default=4)
    options = parser.parse_args()
    program = os.path.join(options.build, "src/checkpoint/persist_bench")
    rows = {"fio": [], "ours": [], "ours, buffered": []}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        before = os.getloadavg()[0]
        for _ in range(options.rounds):
            rows["fio"].append(fio(folder, options.mib, options.block, options.depth))
            rows["ours"].append(ours(program, folder, options.mib))
            rows["ours, buffered"].append(ours(program, folder, options.mib, "buffered"))
    print(f"{options.mib} MiB, {options.rounds} rounds, fio --bs={options.block} "
          f"--iodepth={options.depth}, load {before:.1f} before, {os.getloadavg()[0]:.1f} after")
    for name, seconds in rows.items():
        speed = options.mib * 1.048576 / statistics.median(seconds)
        ratio = statistics.median(f / s for f, s in zip(rows["fio"], seconds))
        print(f"{name:16} {speed:8.0f} MB/s (median), {ratio:.3f} of fio (median of pairs)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
