"""Errors in log lines: what was raised, without the secrets it was raised with."""

from __future__ import annotations

from capataz.privacy.scrubbed import scrubbed


def test_an_error_in_a_log_line_holds_no_secret_of_the_environment() -> None:
    try:
        raise ConnectionError("refused with tilting-at-windmills for ana@example.com")
    except ConnectionError as raised:
        words = scrubbed(raised, {"SHOP_TOKEN": "tilting-at-windmills"})
    assert "tilting" not in words
    assert "ana@" not in words
    assert "ConnectionError: refused" in words
    assert "test_scrubbed.py" in words
