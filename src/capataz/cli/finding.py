"""Finding what a command line names: an agent in the user's code, a store, a run by the beginning of its id."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from capataz.agent import Agent
from capataz.cli.streams import aside
from capataz.events.facts import Event
from capataz.mistakes import Misuse, NotFound
from capataz.ports import Store
from capataz.tools.define import Tool
from capataz.tools.usercode import Trap
from capataz.tools.wording import short_error

if TYPE_CHECKING:
    from capataz.app import App

_MANY = 10_000


def find_agent(named: str) -> Agent:
    """The agent of "module:name", imported from the current folder first. A function that makes one is called.

    Raises `Misuse` when there is none, and when the user's own module fails while it is imported: it says where.
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
    found: Any = getattr(module, name, None)
    if found is None:
        known = [key for key, value in vars(module).items() if isinstance(value, Agent)]
        raise Misuse(f"{module.__name__!r} has no {name!r}; its agents are: {', '.join(known) or 'none'}")
    if not callable(found) or isinstance(found, Tool):
        return cast("object", found)
    with aside(), Trap() as trap:
        return cast("Callable[[], object]", found)()
    raise Misuse(f"{named!r} could not be called without arguments, to make it: {failure(trap.error)}")


def _module(named: str, what: str) -> tuple[ModuleType, str]:
    """The module of "module:name", and the name."""
    module_name, colon, name = named.partition(":")
    if not colon or not module_name or not name:
        raise Misuse(f"{named!r} does not name {what}")
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise Misuse(
            f"{module_name!r} is no name of a module: go to the folder it lies in, and write its name with dots and "
            f"without .py, for example shop:{name} or crew.shop:{name}"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    with aside(), Trap() as trap:
        return import_module(module_name), name
    raise Misuse(_why(module_name, trap.error)) from trap.error


def _why(module: str, error: BaseException | None) -> str:
    """Why a module of the user's could not be imported: what, where, and how to mend it."""
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        if f"{module}.".startswith(f"{error.name}."):
            wrong = f": write it without .py, {module[:-3]}:NAME" if module.endswith(".py") else ""
            return f"there is no module {module!r} in this folder or among the installed packages{wrong}"
        return (
            f"{failure(error)}: {module!r} needs the module {error.name!r}: install it in this environment, or "
            "correct the name"
        )
    if isinstance(error, SystemExit):
        return (
            f"{failure(error)}: {module!r} ends the process while it is imported: "
            'put what it does under `if __name__ == "__main__":`'
        )
    return f"{failure(error)}: mend it; {module!r} could not be imported"


def failure(error: BaseException | None) -> str:
    """`file:line: what was raised`, in one line."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{_shown(error.filename)}:{error.lineno}: {type(error).__name__}: {error.msg}"
    what = f"sys.exit({error.code!r})" if isinstance(error, SystemExit) else short_error(error)
    what = " ".join((str(error) if isinstance(error, Misuse) else what).split())
    frames: list[traceback.FrameSummary] = []
    if error is not None:
        frames += traceback.extract_tb(error.__traceback__)
    called = [frame for frame in frames if not frame.filename.startswith("<frozen") and not _ours(frame.filename)]
    own = [
        frame
        for frame in called
        if Path(frame.filename).is_relative_to(Path.cwd()) and "site-packages" not in frame.filename
    ]
    for frame in (own or called)[-1:]:
        return f"{_shown(frame.filename)}:{frame.lineno}: {what}"
    return what


def _ours(file: str) -> bool:
    """Whether this is the command line itself, which only called what failed."""
    return Path(file).is_relative_to(Path(__file__).parent)


def _shown(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def open_existing(url: str | None) -> Store:
    """The store of a URL, for reading: unlike a run, a look must not make a new file. `Misuse` when there is none."""
    from capataz.app import App

    app = App(url)
    store = app.store
    path: object = getattr(store, "path", None)
    if isinstance(path, Path) and not path.exists():
        raise Misuse(f"there is no store at {path} yet: run something first, or name one with --store")
    return store


def check_named(run: str) -> None:
    """A variable that is not set names no run: else it would be the beginning of the only one there is."""
    if not run.strip():
        raise Misuse(f"{run!r} names no run: write its id, or the beginning of it")


async def find_run(store: Store, named: str) -> list[Event]:
    """The events of the run with this id, or with the only id that begins like this; "last" is the newest run."""
    check_named(named)
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
