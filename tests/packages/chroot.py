"""Runs a command in another root file system, as a container engine does: namespaces of its own, no
network but loopback, and /proc, /dev, /tmp and /etc/hosts of its own. Needs root."""
import os
import shutil
import subprocess

# Arguments: the root, the user, the number of pairs of folders, the pairs (a folder and where it is
# in the root), the command.
ENTER = """
root=$1 user=$2 pairs=$3
shift 3
ip link set lo up
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero random urandom; do
  touch "$root/dev/$name"
  mount --bind "/dev/$name" "$root/dev/$name"
done
mkdir -m 1777 "$root/dev/shm"
mount -t tmpfs tmpfs "$root/tmp"
echo "127.0.0.1 localhost" > "$root/etc/hosts"
while [ "$pairs" -gt 0 ]; do
  mkdir -p "$root$2"
  mount --bind "$1" "$root$2"
  mount -o remount,bind,ro "$root$2"
  pairs=$((pairs - 1))
  shift 2
done
exec chroot --userspec="$user" "$root" /usr/bin/env -i "$@"
"""
NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child")


def reason_to_skip(variable, what, *programs):
    """Why a test cannot run that needs the variable set, root and these programs; None if it can."""
    if os.environ.get(variable) != "1":
        return f"set {variable}=1 to {what} (needs minutes and a Debian mirror)"
    if os.geteuid() != 0:
        return "another root file system is entered with chroot, which needs root"
    missing = [name for name in ("mmdebstrap", "unshare", "chroot", "ip", *programs)
               if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else None


def run(root, command, user="0:0", folders=(), timeout=300):
    """Runs the command, of which the first words may be variables. Each of `folders` is a folder and
    its path in the root, where it is read-only."""
    words = [*NAMESPACES, "sh", "-euc", ENTER, "sh", root, user, len(folders)]
    words += [word for pair in folders for word in pair]
    return subprocess.run(list(map(str, [*words, *command])), stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=timeout, check=False)
