"""A store from the text that names it. Nothing is opened, made or connected to here: the first use does that."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from capataz.mistakes import Misuse
from capataz.ports import Store

_FORMS = "sqlite:///relative.db, sqlite:////absolute/path.db, postgresql://user:password@host/database or memory:"


def open_store(url: str, key: str | None = None) -> Store:
    """The store of a URL.

    >>> open_store("sqlite:///capataz.db").path
    PosixPath('capataz.db')
    >>> open_store("sqlite:////var/lib/capataz.db").path
    PosixPath('/var/lib/capataz.db')

    With a `key` (32 bytes in base64, or several with commas, the newest first) what people and models say is encrypted.
    Raises `Misuse` for anything else than these forms and `memory:`.
    """
    scheme, _, rest = url.partition(":")
    if scheme == "memory" and rest in ("", "//"):
        from capataz.stores.memory import MemoryStore

        return MemoryStore()
    if scheme == "sqlite":
        from capataz.stores.sealing import seal_of
        from capataz.stores.sqlite import SqliteStore

        return SqliteStore(_path(url), seal=seal_of(key))
    if scheme in ("postgres", "postgresql"):
        return _postgres(url, key)
    raise Misuse(f"{url!r} does not name a store: write {_FORMS}")


def _postgres(url: str, key: str | None) -> Store:
    try:
        import psycopg
    except ImportError as error:
        raise Misuse(f"PostgreSQL needs a driver: pip install 'capataz[postgres]' ({error})") from error
    del psycopg
    from capataz.stores.postgres import PostgresStore
    from capataz.stores.sealing import seal_of

    return PostgresStore(url, seal=seal_of(key))


def _path(url: str) -> str:
    parts = urlsplit(url)
    if parts.netloc or parts.query or not url.startswith("sqlite:///") or not parts.path.strip("/"):
        raise Misuse(f"{url!r} does not name a file: write sqlite:///relative.db or sqlite:////absolute/path.db")
    return unquote(parts.path[1:])
