"""A real server on loopback, in a thread, for what a test client cannot show: browsers, exporters, fuzzers."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import uvicorn

from capataz.web.build import build
from capataz.web.site import Site


@contextlib.contextmanager
def served(site: Site) -> Iterator[str]:
    """The address of a running server."""
    config = uvicorn.Config(build(site), host="127.0.0.1", port=0, log_level="error", ws="none", loop="asyncio")
    server = uvicorn.Server(config)
    sock = config.bind_socket()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    until = time.monotonic() + 20
    while not server.started:
        assert thread.is_alive()
        assert time.monotonic() < until
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(15)
        sock.close()
