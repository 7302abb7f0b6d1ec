"""`capataz rekey`: everything in a store written anew under another key, under none, or under the first one."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import click

from capataz.cli.finding import open_existing
from capataz.cli.options import as_json as json_option, store as store_option
from capataz.cli.render import print_json
from capataz.mistakes import Misuse
from capataz.stores.sealing import HOW, seal_of


@click.command()
@store_option
@click.option("--decrypt", is_flag=True, help="Write everything in the clear.")
@json_option
def rekey(store: str | None, decrypt: bool, as_json: bool) -> None:
    """Write what people and models have said anew, under the first key of CAPATAZ_KEY.

    The keys that were used before have to stand behind it, with commas between them. Workers may go on meanwhile, if
    they have both keys already. It may be broken off and begun again. At the end a SQLite file is written without what
    was deleted: that takes as much free space as the file. PostgreSQL lets go of the old bytes with its next VACUUM.

    \b
      CAPATAZ_KEY=$NEW,$OLD capataz rekey --store sqlite:////var/lib/capataz.db
    """
    keys = os.environ.get("CAPATAZ_KEY")
    if not keys:
        raise Misuse(f"set CAPATAZ_KEY to the new key, then a comma and the old one; {HOW}")
    count = asyncio.run(_rekey(store, keys, decrypt))
    if as_json:
        print_json({"written_anew": count})
    else:
        click.echo(f"{count:,} {'text' if count == 1 else 'texts'} written anew")


async def _rekey(url: str | None, keys: str, decrypt: bool) -> int:
    store: Any = open_existing(url)
    try:
        if not hasattr(store, "rekey"):
            raise Misuse(f"{type(store).__name__} cannot be rekeyed")
        return int(await store.rekey(seal_of(keys, writing=not decrypt)))
    finally:
        await store.close()
