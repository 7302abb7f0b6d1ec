"""An error in words fit for a log: what it says, masked, and where it was raised. Never with the objects it carries."""

from __future__ import annotations

from collections.abc import Mapping


def scrubbed(error: BaseException, environment: Mapping[str, str]) -> str:
    """The text of an error, with its causes and notes, and the places it came through.

    Personal data and the secrets of the environment are masked: whoever logs it cannot know what it was raised with.

    >>> scrubbed(ValueError("no such user: ana@example.com"), {})
    'ValueError: no such user: <EMAIL>'
    """
    from capataz.privacy.configured import environment_secrets
    from capataz.privacy.mask import Mask

    places: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    where = f" (at {' > '.join(places[-6:])})" if places else ""
    return Mask(environment_secrets(environment)).scrub(error) + where
