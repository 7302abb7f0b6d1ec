"""Make the project's virtual environment with whatever Python the machine has; called by the Makefile.

It must run, and say something useful, on a Python too old for the project, so it stays with old syntax. Where Python
comes without `ensurepip` (several Linux distributions split it off) the pip of the outer Python fills the environment.

Usage: python3 bootstrap.py FOLDER
"""

import importlib.util
import os
import subprocess
import sys
import venv

LEAST = (3, 11)
INSTALL_SECONDS = 600


def fail(message):
    sys.exit("\n%s\n" % message)


def pip_from_outside(python):
    """Put pip into an environment that was made without it."""
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "pip"]
    try:
        subprocess.run(command, check=True, timeout=INSTALL_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        fail(
            "%s has neither ensurepip nor a pip (22.3 or newer) that could stand in for it: %s\n"
            "Install your system's venv package (often called python3-venv), or name another Python: "
            "make PYTHON=/path/to/python3" % (sys.executable, error)
        )


def main(folder):
    if sys.version_info < LEAST:
        fail(
            "Capataz needs Python %d.%d or newer, and %s is %s.\nName another one: make PYTHON=/path/to/python3"
            % (LEAST[0], LEAST[1], sys.executable, sys.version.split()[0])
        )
    with_pip = importlib.util.find_spec("ensurepip") is not None
    venv.EnvBuilder(clear=True, symlinks=os.name != "nt", with_pip=with_pip).create(folder)
    if not with_pip:
        pip_from_outside(os.path.join(folder, "bin", "python"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        fail(__doc__)
    main(sys.argv[1])
