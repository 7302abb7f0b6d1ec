"""From "provider:model" to something that can be called: address and key out of arguments, environment and profiles.

What is missing is found out here, before a run begins, and the message names the variable to set. Never prints a key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from capataz.mistakes import Misuse
from capataz.models.dialects.base import Profile
from capataz.models.dialects.profiles import PROFILES
from capataz.models.hosts import is_loopback

if TYPE_CHECKING:
    from capataz.models.http import HttpModel


def resolve(name: str, *, base_url: str | None = None, api_key: str | None = None) -> tuple[HttpModel, str]:
    """The model behind a name like "anthropic:claude-sonnet-4-6", and its name at the provider. Opens nothing.

    Address: `base_url`, else the provider's variable (`OPENAI_BASE_URL`, ...), else its own address. Key: `api_key`,
    else the provider's variable (`OPENAI_API_KEY`, ...); none is needed for a server on this machine. Raises
    `Misuse` for an unknown provider, a missing key and an address that is none.
    """
    from capataz.models.dialects import DIALECTS
    from capataz.models.http import HttpModel

    profile, model = _profile(name)
    if profile.dialect not in DIALECTS:
        raise Misuse(f"model {name!r}: this version does not speak {profile.dialect} yet, only {', '.join(DIALECTS)}")
    profile = replace(profile, base_url=_address(profile, base_url, os.environ))
    key = _key(profile, api_key, os.environ)
    return HttpModel(profile, DIALECTS[profile.dialect], key), model


def _profile(name: str) -> tuple[Profile, str]:
    provider, mark, model = name.partition(":")
    if not mark or not model.strip():
        raise Misuse(f"model {name!r}: write provider:model, for example openai:gpt-5-mini")
    if provider not in PROFILES:
        raise Misuse(
            f"model {name!r}: there is no provider {provider!r} here, only {', '.join(sorted(PROFILES))}. "
            "A server that speaks OpenAI's format is openai:NAME with a base_url"
        )
    return PROFILES[provider], model


def _variable(profile: Profile, what: str) -> str:
    """`OPENAI_API_KEY` gives `OPENAI_BASE_URL`; a provider without such a key variable gives its own name."""
    if profile.key_env is not None and profile.key_env.endswith("_API_KEY"):
        return profile.key_env.removesuffix("API_KEY") + what
    return f"{re.sub('[^A-Z0-9]', '_', profile.name.upper())}_{what}"


def _address(profile: Profile, given: str | None, environment: Mapping[str, str]) -> str:
    variable = _variable(profile, "BASE_URL")
    found = given or environment.get(variable) or profile.base_url
    if not found:
        raise Misuse(f"provider {profile.name} has no address of its own: give base_url, or set {variable}")
    found = found.strip().rstrip("/")
    parts = urlsplit(found)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Misuse(f"the address of provider {profile.name} has to begin with https:// or http://, and name a host")
    if "@" in parts.netloc:
        raise Misuse(f"the address of provider {profile.name} holds a user or password: give the key as api_key")
    return found


def _key(profile: Profile, given: str | None, environment: Mapping[str, str]) -> str | None:
    found = given or (environment.get(profile.key_env) if profile.key_env else None) or ""
    found = found.strip()
    if re.search(r"[^\x21-\x7e]", found):
        raise Misuse(f"the key of provider {profile.name} has blanks or unusual letters in it: copy it again")
    if not found and profile.key_env and not is_loopback(urlsplit(profile.base_url).hostname or ""):
        raise Misuse(f"provider {profile.name} needs a key: set {profile.key_env}, or give api_key")
    return found or None
