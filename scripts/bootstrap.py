"""Make the project's virtual environment with whatever Python the machine has; called by the Makefile.

It must run, and say something useful, on a Python too old for the project, so it keeps to plain syntax. Where Python
comes without `ensurepip` (several Linux distributions split it off) the pip of the outer Python fills the environment.

Usage: python3 bootstrap.py FOLDER
"""

import importlib.util
import os
import subprocess
import sys
import venv
from typing import NoReturn

LEAST = (3, 11)
INSTALL_SECONDS = 600


def fail(message: str) -> NoReturn:
    sys.exit(f"\n{message}\n")


def pip_from_outside(python: str) -> None:
    """Put pip into an environment that was made without it."""
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--quiet", "pip"]
    try:
        subprocess.run(command, check=True, timeout=INSTALL_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        fail(
            f"{sys.executable} has neither ensurepip nor a pip (22.3 or newer) that could stand in for it: {error}\n"
            "Install your system's venv package (often called python3-venv), or name another Python: "
            "make PYTHON=/path/to/python3"
        )


def main(folder: str) -> None:
    if sys.version_info < LEAST:
        fail(
            f"Capataz needs Python {LEAST[0]}.{LEAST[1]} or newer, and {sys.executable} is {sys.version.split()[0]}.\n"
            "Name another one: make PYTHON=/path/to/python3"
        )
    print(f"Installing what Capataz needs into {folder}; this takes a minute, and happens only once.", flush=True)
    with_pip = importlib.util.find_spec("ensurepip") is not None
    venv.EnvBuilder(clear=True, symlinks=os.name != "nt", with_pip=with_pip).create(folder)
    if not with_pip:
        pip_from_outside(os.path.join(folder, "bin", "python"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        fail("usage: bootstrap.py FOLDER")
    main(sys.argv[1])
