"""Finding what a command line names: an agent in the user's code, a store, a run by the beginning of its id."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

from capataz.agent import Agent
from capataz.events.facts import Event
from capataz.mistakes import Misuse, NotFound
from capataz.ports import Store

if TYPE_CHECKING:
    from capataz.app import App

_MANY = 10_000


def find_agent(named: str) -> Agent:
    """The agent of "module:name", imported from the current folder first. A function that makes one is called.

    Raises `Misuse` when there is none; what the user's own module raises while it is imported is let through.
    """
    found = _load(named)
    if not isinstance(found, Agent):
        raise Misuse(f"{named!r} is a {type(found).__name__}, not an Agent")
    return found


def find_app(named: str, store: str | None) -> tuple[App, tuple[Agent, ...]]:
    """The App of "module:name" with its agents; for an agent, an App made for it. `store` goes before the App's own."""
    from capataz.app import App

    found = _load(named)
    if isinstance(found, Agent):
        return App(store), (found,)
    if not isinstance(found, App):
        raise Misuse(f"{named!r} is a {type(found).__name__}, neither an App nor an Agent")
    if not found.agents:
        raise Misuse(f"{named!r} has no agents: write App(..., agents=[...])")
    if store is not None:
        raise Misuse(f"{named!r} is an App and has a store of its own: leave out --store")
    return found, found.agents


def find_function(named: str) -> Callable[..., object]:
    """The function of "module:name", imported from the current folder first. It is not called."""
    module, name = _module(named, "a function: write MODULE:FUNCTION, for example checks:went_well")
    found: object = getattr(module, name, None)
    if not callable(found):
        raise Misuse(f"{named!r} is no function")
    return found


def _load(named: str) -> object:
    """What "module:name" names."""
    module, name = _module(named, "an agent: write MODULE:AGENT, for example shop:support")
    found: object = getattr(module, name, None)
    if found is None:
        known = [key for key, value in vars(module).items() if isinstance(value, Agent)]
        raise Misuse(f"{module.__name__!r} has no {name!r}; its agents are: {', '.join(known) or 'none'}")
    if callable(found):
        found = cast("Callable[[], object]", found)()
    return found


def _module(named: str, what: str) -> tuple[ModuleType, str]:
    """The module of "module:name", and the name."""
    module_name, colon, name = named.partition(":")
    if not colon or not module_name or not name:
        raise Misuse(f"{named!r} does not name {what}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(module_name), name
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise Misuse(f"there is no module {module_name!r} in this folder or among the installed packages") from error


def open_existing(url: str | None) -> Store:
    """The store of a URL, for reading: unlike a run, a look must not make a new file. `Misuse` when there is none."""
    from capataz.app import App

    app = App(url)
    store = app.store
    path: object = getattr(store, "path", None)
    if isinstance(path, Path) and not path.exists():
        raise Misuse(f"there is no store at {path} yet: run something first, or name one with --store")
    return store


async def find_run(store: Store, named: str) -> list[Event]:
    """The events of the run with this id, or with the only id that begins like this; "last" is the newest run."""
    if named != "last":
        try:
            return await store.read(named)
        except NotFound:
            pass
    rows = await store.runs(1 if named == "last" else _MANY)
    found = [row.run for row in rows if named == "last" or row.run.startswith(named)]
    if not found:
        raise NotFound("this store has no runs yet" if named == "last" else f"no run begins with {named!r}")
    if len(found) > 1:
        raise Misuse(f"{named!r} is not clear: {len(found)} runs begin so, among them {', '.join(found[:3])}")
    return await store.read(found[0])
