"""`capataz serve`: the web view, the HTTP API and the receiver for spans; only on this machine by default."""

from __future__ import annotations

import ipaddress
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from capataz.app import App
from capataz.cli.alerts import rules_of, rules_option
from capataz.cli.finding import find_app
from capataz.cli.masking import reveal as reveal_option
from capataz.cli.options import store as store_option
from capataz.mistakes import Misuse
from capataz.models.hosts import is_loopback

if TYPE_CHECKING:
    from capataz.agent import Agent
    from capataz.lens.alerts.rules import Rule
    from capataz.web.tokens import Tokens

INSTALL = 'capataz serve needs the web extra: pip install "capataz[web]"'


@click.command()
@click.argument("target", metavar="[MODULE:APP]", required=False)
@store_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=8321, show_default=True, help="0: any free one.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="Lines TOKEN SCOPE [TENANT]; also from CAPATAZ_TOKENS.",
)
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A name this server is reached by.")
@rules_option
@reveal_option
def serve(
    target: str | None,
    store: str | None,
    host: str,
    port: int,
    token_file: Path | None,
    hosts: tuple[str, ...],
    rules: Path | None,
    reveal: bool,
) -> None:
    """Show the runs of a store in the browser, answer the HTTP API, and take spans at /v1/traces.

    With MODULE:APP (or an agent) runs can be submitted to its agents and forked. Without it, everything else works.
    Beyond loopback a token is needed: read looks, operate answers and submits, admin may do everything.

    \b
      capataz serve
      capataz serve shop:app --port 8080
      capataz serve --host 0.0.0.0 --token-file tokens.txt --allow-host capataz.example.net
    """
    tokens = _tokens(token_file)
    _refuse_open(host, bool(tokens))
    app, agents = find_app(target, store) if target is not None else (App(store), ())
    _run(app, agents, host, port, tokens, hosts, rules_of(rules), masked=not reveal)


def _tokens(path: Path | None) -> Tokens:
    try:
        from capataz.web.tokens import from_environment
    except ModuleNotFoundError as error:
        raise Misuse(INSTALL) from error
    given = [(str(path), path.read_text(encoding="utf-8"))] if path is not None else []
    return from_environment(os.environ, given)


def _refuse_open(host: str, tokens: bool) -> None:
    """Whoever can reach a server without tokens may do everything: so nobody else may reach it."""
    if not tokens and not is_loopback(host):
        raise Misuse(
            f"{host} can be reached from other machines, and there are no tokens: give --token-file or CAPATAZ_TOKENS, "
            "or leave --host at 127.0.0.1"
        )


def _run(
    app: App,
    agents: tuple[Agent, ...],
    host: str,
    port: int,
    tokens: Tokens,
    hosts: tuple[str, ...],
    rules: tuple[Rule, ...],
    *,
    masked: bool,
) -> None:
    try:
        import uvicorn

        from capataz.web.build import build
        from capataz.web.site import site_for
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("starlette", "uvicorn", "multipart", "python_multipart"):
            raise
        raise Misuse(INSTALL) from error
    named = (host,) if not _is_any(host) else ()
    site = site_for(app, agents, tokens=tokens, hosts=(*named, *hosts), rules=rules, masked=masked)
    site.closes = True
    config = uvicorn.Config(
        build(site),
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=20,
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=64 << 10,
    )
    server = uvicorn.Server(config)
    sock = config.bind_socket()
    bound = sock.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    site.url = f"http://{shown}:{bound}"
    click.echo(f"Capataz shows {app.store_url} at {site.url}/ (Ctrl-C ends it)")
    sys.stdout.flush()
    server.run(sockets=[sock])


def _is_any(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False
