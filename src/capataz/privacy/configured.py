"""Which values of an environment are secret, by the names they have there."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")
_SHORTEST_SECRET = 8


def environment_secrets(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Values of variables whose names say that they are secret.

    >>> environment_secrets({"SHOP_TOKEN": "tilting-at-windmills", "SHOP_NAME": "the-little-shop", "MY_KEY": "short"})
    ('tilting-at-windmills',)
    """
    return tuple(
        value
        for name, value in environment.items()
        if _SECRET_NAME.search(name.upper()) and len(value.strip()) >= _SHORTEST_SECRET
    )
