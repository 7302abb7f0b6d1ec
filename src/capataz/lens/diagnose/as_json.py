"""The diagnosis for machines. Keys are added, never renamed."""

from __future__ import annotations

from collections.abc import Mapping

from capataz.events.facts import JSON
from capataz.lens.diagnose.findings import FAILURES, LIMITS, as_json
from capataz.lens.diagnose.totals import BANDS, KindSum, Sum, Sums, Totals, Waits

VERSION = 1


def report_json(totals: Totals, reading: Mapping[str, JSON]) -> dict[str, JSON]:
    """Everything found, with `reading` (what was read and what could not be) put in as it is."""
    return {
        "version": VERSION,
        "reading": dict(reading),
        "all": _sums(totals.all),
        "sources": {name: _sums(sums) for name, sums in sorted(totals.sources.items())},
        "kinds": [
            {"failure": failure, "kind": kind, **_kind(sums)}
            for (failure, kind), sums in sorted(totals.kinds.items(), key=lambda pair: -pair[1].runs)
        ],
        "errors_by_row": dict(totals.rows.most_common()),
        "silences": {"model": _waits(totals.waits_model), "tool": _waits(totals.waits_tool)},
        "pointers": _pointers(totals),
        "pointer_limits": dict(LIMITS),
        "tools": {
            name: {"kind": tool.kind, "target": tool.target, "why": tool.why, "runs": tool.runs}
            for name, tool in sorted(totals.tools.items())
        },
        "worst": {name: [as_json(shown) for shown in found] for name, found in totals.shown().items()},
    }


def _sums(sums: Sums) -> dict[str, JSON]:
    return {
        "runs": sums.runs,
        "labelled_good": sums.good,
        "labelled_failed": sums.bad,
        "tokens_estimated": sums.estimated,
        "without_times": sums.timeless,
        "spent": _sum(sums.spent),
        "spent_by_failed": _sum(sums.spent_bad),
        "failures": {name: sums.failures.get(name, 0) for name in FAILURES},
        "would_be_cut": sums.cut,
        "good_would_be_cut": sums.good_cut,
        "after_cut": _sum(sums.after),
        "after_cut_of_failed": _sum(sums.after_bad),
        "turns_without_call": sums.silent_turns,
        "runs_without_call": sums.no_call,
        "claimed_without_effect": {
            "runs": sums.unbacked,
            "labelled_good": sums.unbacked_good,
            "labelled_failed": sums.unbacked_bad,
        },
        "runs_repeating_steps": sums.repeating,
        "unanswered_calls": sums.unanswered,
        "errors": sums.errors,
        "runs_with_error_burst": sums.bursts,
        "longest_error_burst": sums.longest_burst,
    }


def _sum(total: Sum) -> dict[str, JSON]:
    return {
        "turns": total.turns,
        "calls": total.calls,
        "tokens": total.tokens,
        "money": str(total.money),
        "runs_with_price": total.priced,
        "runs_without_price": total.unpriced,
    }


def _kind(kind: KindSum) -> dict[str, JSON]:
    return {
        "runs": kind.runs,
        "labelled_good": kind.good,
        "labelled_failed": kind.bad,
        "cut": kind.cut,
        "good_cut": kind.good_cut,
        "after_cut": _sum(kind.after),
    }


def _waits(waits: Waits) -> dict[str, JSON]:
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    found: dict[str, JSON] = {name: round(waits.quantile(share), 2) for name, share in shares.items()}
    return {"count": waits.total, **found, "max": round(waits.longest, 2)}


def _pointers(totals: Totals) -> list[JSON]:
    """Per kind, source and band of length: labelled runs with the pointer, beside all labelled runs of the band."""
    found: list[JSON] = []
    for kind, source in sorted({(kind, source) for kind, source, _, _ in totals.pointed if kind}):
        for _, band in BANDS:
            row: dict[str, JSON] = {"kind": kind, "source": source, "band": band}
            for went in ("good", "bad"):
                row[went] = totals.pointed[kind, source, band, went]
                row[f"{went}_of"] = totals.pointed["", source, band, went]
            if row["good_of"] or row["bad_of"]:
                found.append(row)
    return found
