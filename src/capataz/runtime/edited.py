"""An agent as the log of a fork has it: with the instructions and the policy that were edited there.

Whoever drives a fork obeys its log (decision 0020), now and after a crash, in the process that began it or in another
one. Nothing but the log may be needed to know what is different.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from capataz.events.facts import RunStarted
from capataz.policy.policy import Policy
from capataz.runtime.guarding import rules_of
from capataz.runtime.yard import Spec


def edited(spec: Spec, started: RunStarted) -> Spec:
    """The agent this run is driven with; the agent itself where its log edits nothing."""
    fork = started.fork
    if fork is None:
        return spec
    if fork.prompt and started.instructions != spec.instructions:
        rest = spec.worker.system[len(spec.instructions) :]  # what a typed answer adds
        versions = replace(spec.versions, prompt=digest(started.instructions))
        worker = replace(spec.worker, system=f"{started.instructions}{rest}")
        spec = replace(spec, instructions=started.instructions, worker=worker, versions=versions)
    if fork.policy:
        policy = Policy.from_toml(fork.policy, f"the policy of the fork {started.run}")
        versions = replace(spec.versions, policy=policy.digest)
        spec = replace(spec, rules=rules_of(policy, spec.guards), versions=versions)
    return spec


def digest(text: str) -> str:
    """The version of a prompt: the beginning of its hash."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
