"""The same yard as the engines': an App on a file, quick beats, workers."""

from __future__ import annotations

from tests.engines.conftest import Yard as Yard, until as until, yard as yard
