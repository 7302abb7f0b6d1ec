"""Records nobody should have to survive, survived: bounded, counted, named, never raised."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import orjson
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from capataz.events.facts import JSON
from capataz.events.plain import DEEPEST
from capataz.ingest.build import ImportedRun
from capataz.ingest.formats.base import Context
from capataz.ingest.formats.literal import read as read_literal
from capataz.ingest.read import Share, parse, read_runs
from capataz.ingest.registry import DOCUMENTS, SESSIONS
from capataz.ingest.report import Limits, Report
from capataz.ingest.shape import TOO_DEEP

Reads = Callable[..., tuple[list[ImportedRun], Report]]
CHAT = b'{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}\n'


def test_broken_lines_are_named_and_the_others_read(tmp_path: Path, read: Reads) -> None:
    (tmp_path / "a.jsonl").write_bytes(CHAT + b'{"messages": [{"role": \n' + CHAT + b"\n" + b"\xff\xfe{\n" + CHAT)
    runs, report = read(tmp_path)
    assert len(runs) == 3
    assert [(note.line, note.why.split(":")[0]) for note in report.notes] == [(2, "not JSON"), (5, "not JSON")]
    assert str(report.notes[0]).startswith(f"{tmp_path}/a.jsonl:2: ")


def test_a_damaged_first_line_does_not_hide_the_rest(tmp_path: Path, read: Reads) -> None:
    (tmp_path / "a").write_bytes(b"/speci" + CHAT + CHAT)
    (tmp_path / "b").write_bytes(b'{"messages": [\n' + CHAT + CHAT)
    runs, report = read(tmp_path)
    assert [run.origin.line for run in runs] == [2, 2, 3]
    assert report.broken == 2


def test_deep_nesting_is_refused(tmp_path: Path, read: Reads) -> None:
    (tmp_path / "a").write_bytes(b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    (tmp_path / "b").write_bytes(b'{"messages": ' + b'{"a":' * 500 + b"1" + b"}" * 500 + b"}\n" + CHAT)
    runs, report = read(tmp_path)
    assert len(runs) == 1
    assert [note.why for note in report.notes] == [TOO_DEEP, TOO_DEEP]


@pytest.mark.parametrize(("levels", "why"), [(120, ""), (121, TOO_DEEP), (1_100, TOO_DEEP), (200_000, TOO_DEEP)])
def test_the_deepest_record_is_as_deep_as_the_page_on_records_says(levels: int, why: str) -> None:
    assert parse(b"[" * levels + b"]" * levels)[1] == why
    page = (Path(__file__).parents[2] / "docs" / "ingest.md").read_text(encoding="utf-8")
    assert f"{DEEPEST} levels of nesting" in page


def test_a_huge_line_is_left_out(tmp_path: Path, read: Reads) -> None:
    huge = b'{"messages": [{"role": "user", "content": "' + b"x" * 50_000 + b'"}]}\n'
    (tmp_path / "a").write_bytes(CHAT + huge + CHAT)
    runs, report = read(tmp_path, limits=Limits(value_bytes=10_000))
    assert [run.origin.line for run in runs] == [1, 3]
    assert report.notes[0].why == "longer than 10000 bytes: left out"


def test_a_huge_value_over_many_lines_is_left_out(tmp_path: Path, read: Reads) -> None:
    (tmp_path / "a").write_bytes(b"{\n" + b'"k": "x",\n' * 5_000 + b'"messages": []}')
    runs, report = read(tmp_path, limits=Limits(value_bytes=10_000))
    assert runs == []
    assert report.broken == 1


@pytest.mark.parametrize("how", ["gz", "zip"])
def test_decompression_bombs_end_at_the_limit(how: str, tmp_path: Path, read: Reads) -> None:
    bomb = CHAT + b" " * 5_000_000 + b"\n" + CHAT
    if how == "gz":
        (tmp_path / "a").write_bytes(gzip.compress(bomb))
    else:
        with zipfile.ZipFile(tmp_path / "a", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("one", bomb)
    (tmp_path / "z").write_bytes(CHAT)
    runs, report = read(tmp_path, limits=Limits(unpacked_bytes=1_000_000))
    assert [run.origin.file.rsplit("/", 1)[-1][0] for run in runs][-1] == "z"
    assert "more than the limit" in report.notes[0].why


def test_a_cut_off_archive_gives_what_it_has(tmp_path: Path, read: Reads) -> None:
    whole = gzip.compress(os.urandom(20_000).hex().encode().join([CHAT, CHAT]))
    (tmp_path / "a").write_bytes(gzip.compress(CHAT * 20_000)[:-2_000])
    (tmp_path / "b").write_bytes(b"PK\x03\x04 not a zip")
    (tmp_path / "c").write_bytes(whole[:10])
    runs, report = read(tmp_path)
    assert len(runs) > 1_000
    assert {Path(note.file).name for note in report.notes} >= {"a", "b"}


def test_links_are_not_followed_and_pipes_not_opened(tmp_path: Path, read: Reads) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "a").write_bytes(CHAT)
    (inner / "loop").symlink_to(tmp_path)
    (inner / "self").symlink_to(inner / "self")
    os.mkfifo(inner / "pipe")
    runs, report = read(tmp_path)
    assert len(runs) == 1
    assert report.skipped["a link or not a regular file"] == 3


def test_a_link_given_by_name_is_followed(tmp_path: Path, read: Reads) -> None:
    (tmp_path / "a").write_bytes(CHAT)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert len(read(tmp_path / "link")[0]) == 1


def test_very_many_files_are_bounded(tmp_path: Path, read: Reads) -> None:
    for number in range(300):
        (tmp_path / f"{number:03}").write_bytes(CHAT)
    runs, report = read(tmp_path, limits=Limits(files=250))
    assert len(runs) == 250
    assert report.broken == 1
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as archive:
        for number in range(300):
            archive.writestr(str(number), CHAT)
    assert len(read(tmp_path / "many.zip", limits=Limits(members=200))[0]) == 200


def test_what_is_not_there_or_not_ours_is_reported(tmp_path: Path, read: Reads) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "image").write_bytes(b"\x89PNG\x00\x00")
    (tmp_path / "words.md").write_text("# Hello")
    (tmp_path / "other.json").write_text('{"a": 1}')
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    runs, report = read(tmp_path, tmp_path / "missing", "/dev/null")
    assert runs == []
    assert sum(report.skipped.values()) == 6
    assert report.notes[0].why.startswith("cannot be opened")


def test_a_very_long_run_is_cut(tmp_path: Path, read: Reads) -> None:
    messages = [{"role": "user", "content": "hi"}, *[{"role": "assistant", "content": str(n)} for n in range(500)]]
    (tmp_path / "a").write_bytes(orjson.dumps({"messages": messages}))
    assert len(read(tmp_path / "a", limits=Limits(run_events=100))[0][0].events) == 101


def test_nan_lone_surrogates_and_a_byte_order_mark_are_forgiven() -> None:
    assert parse(b'\xef\xbb\xbf{"a": NaN}') == ({"a": None}, "")
    value, _ = parse(b'{"a": "\\ud800x", "b": "\\ud83d\\ude00"}')
    assert value == {"a": "\ufffdx", "b": "\U0001f600"}
    assert parse(b"{")[0] is None


def test_printed_objects_are_read_and_never_run() -> None:
    assert read_literal("[(A(x=1, y=-2.5), {'k': None}), nan]") == [
        [{"__class__": "A", "x": 1, "y": -2.5}, {"k": None}],
        "nan",
    ]
    assert read_literal("__import__('os').system('x')") == {"__class__": "call", "__args__": ["x"]}
    assert read_literal("(" * 5_000 + ")" * 5_000) is None
    assert read_literal("1 +") is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYS = "".join(
    (
        "messages role content tool_calls function name arguments type history traj reward task_id turn_history ",
        "actions observations trajectory action observation resourceSpans scopeSpans spans attributes sessionId ",
        "message payload events e t epoch target samples id steps schema_version full_response function_calls ",
        "intermediate_steps fact seq at usage timestamp uuid parentId version question loglines args extras cause ",
        "tool_call_metadata model_response scores output summary item thread_id info ",
    )
).split()
NAMED = st.recursive(
    st.none() | st.integers() | st.sampled_from(["assistant", "user", "tool", "message", "session", "result", "x", ""]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=25,
)


def convert(value: JSON) -> None:
    """Through every format, recognised or not, without the net that reading has."""
    context = Context("x", 1)
    for document in DOCUMENTS:
        document.looks(value)
        list(document.runs(value, context))
    for format in SESSIONS:
        format.looks(value)
        session = format.open(context)
        list(session.feed(value, 1))
        list(session.feed(value, 2))
        list(session.close())


@given(VALUES | NAMED)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_json_makes_a_converter_raise(value: JSON) -> None:
    convert(value)


@st.composite
def damaged(draw: st.DrawFn, values: list[JSON]) -> JSON:
    """A real record with one of its parts replaced by something else."""
    value: JSON = json.loads(json.dumps(draw(st.sampled_from(values))))
    at, depth = value, draw(st.integers(1, 7))
    for step in range(depth):
        keys: list[object] = list(at) if isinstance(at, dict) else list(range(len(at))) if isinstance(at, list) else []
        if not keys:
            break
        key = draw(st.sampled_from(keys))
        inner = at[key]  # type: ignore[index, call-overload]
        if step == depth - 1 or not isinstance(inner, (dict, list)) or not inner:
            at[key] = draw(VALUES)  # type: ignore[index, call-overload]
            break
        at = inner
    return value


def _known() -> list[JSON]:
    found: list[JSON] = []
    for path in sorted((Path(__file__).parents[1] / "data" / "records").glob("*.json*")):
        raw = path.read_bytes()
        try:
            found.append(orjson.loads(raw))
        except orjson.JSONDecodeError:
            found.extend(orjson.loads(line) for line in raw.splitlines())
    return found


@given(damaged(_known()))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_damage_to_a_real_record_makes_a_converter_raise(value: JSON) -> None:
    convert(value)


LINES = st.lists(st.sampled_from([CHAT, b"{\n", b"[\n", b"\n", b"x\n", b"null\n"])).map(b"".join)


@given(raw=st.binary(max_size=300) | LINES)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_make_reading_raise(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(raw)
    list(read_runs([tmp_path / "a"]))


def test_shares_report_everything_exactly_once(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(CHAT + b"{broken\n" + b'{"x": "' + b"y" * 9_000 + b'"}\n' + CHAT)
    (tmp_path / "b").write_bytes(gzip.compress(CHAT * 9_000)[:-900])
    (tmp_path / "c").write_bytes(b"PK\x03\x04 not a zip")
    (tmp_path / "d").write_bytes(b"{\n" + b'"k": "x",\n' * 5_000 + b'"messages": []}')
    (tmp_path / "e").write_bytes(b'{"type":"session","version":3,"id":"x","cwd":"/"}\n{"type":"x"}\n')
    (tmp_path / "f").symlink_to(tmp_path / "a.jsonl")
    (tmp_path / "g").write_bytes(b'{"eval": {}, "status": "started"}')
    limits = Limits(value_bytes=5_000)
    whole, together = Report(), Report()
    list(read_runs([tmp_path], report=whole, limits=limits))
    for index in range(3):
        part = Report()
        list(read_runs([tmp_path], report=part, limits=limits, share=Share(index, 3)))
        together.merge(part)
    assert together.as_json() == whole.as_json()
    assert whole.skipped["nothing an agent did"] == 2


@pytest.mark.parametrize("of", [2, 3])
def test_shares_give_every_run_exactly_once(of: int, records: Path) -> None:
    whole = sorted(f"{run.origin} {run.id}" for run in read_runs([records]))
    reports = [Report() for _ in range(of)]
    parts = [
        f"{run.origin} {run.id}"
        for index in range(of)
        for run in read_runs([records], report=reports[index], share=Share(index, of))
    ]
    assert sorted(parts) == whole
    together = Report()
    for report in reports:
        together.merge(report)
    assert together.files == len(list(records.iterdir()))
    assert sum(together.runs.values()) == len(whole)


def _tar(inside: dict[str, bytes], mode: Literal["w", "w:gz"]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        for name, data in inside.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return packed.getvalue()


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_tar_is_read_file_by_file(mode: Literal["w", "w:gz"], tmp_path: Path, read: Reads) -> None:
    packed = _tar({"a.json": CHAT, "../b.jsonl": CHAT * 2, "c.json.gz": gzip.compress(CHAT)}, mode)
    (tmp_path / "records").write_bytes(packed)
    (tmp_path / "cut").write_bytes(packed[: len(packed) // 2])
    runs, report = read(tmp_path / "records")
    assert [run.origin.file.rpartition("!")[2] for run in runs] == ["a.json", "../b.jsonl", "../b.jsonl", "c.json.gz"]
    assert report.broken == 0
    assert read(tmp_path / "cut")[1].broken + len(read(tmp_path / "cut")[0]) > 0


def test_a_tar_of_bombs_ends_at_the_limit(tmp_path: Path, read: Reads) -> None:
    (tmp_path / "a").write_bytes(_tar({"a": CHAT, "b": CHAT + b" " * 100_000, "c": CHAT}, "w:gz"))
    _, report = read(tmp_path, limits=Limits(unpacked_bytes=50_000))
    assert any("more than the limit" in note.why for note in report.notes)


def test_what_is_compressed_inside_an_archive_or_twice_is_read(tmp_path: Path, read: Reads) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("one.json.gz", gzip.compress(CHAT))
    (tmp_path / "twice.gz").write_bytes(gzip.compress(gzip.compress(CHAT)))
    runs, report = read(tmp_path)
    assert (len(runs), report.skipped) == (2, {})


def test_what_is_left_alone_is_named_and_says_why(tmp_path: Path, read: Reads) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("one.json", CHAT)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("inner.zip", inner.getvalue())
    (tmp_path / "powershell.json").write_bytes(CHAT.decode().encode("utf-16"))
    (tmp_path / "z.zst").write_bytes(b"\x28\xb5\x2f\xfd rest")
    for number in range(9):
        (tmp_path / f"{number}.png").write_bytes(b"\x89PNG\x00")
    _, report = read(tmp_path)
    assert report.left_alone == {
        "an archive inside an archive": [f"{tmp_path}/a.zip!inner.zip"],
        "UTF-16: write it as UTF-8": [f"{tmp_path}/powershell.json"],
        "packed with zstd, which is not unpacked here": [f"{tmp_path}/z.zst"],
        "not text": [f"{tmp_path}/{number}.png" for number in range(5)],
    }
    assert report.skipped["not text"] == 9
    again = Report()
    again.merge(report)
    assert again.as_json() == report.as_json()


def test_a_broken_archive_on_standard_input_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    for packed in (gzip.compress(CHAT)[:12], b"PK\x03\x04 and no more", b"BZh9 no"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(packed)))
        report = Report()
        assert list(read_runs(["-"], report=report)) == []
        assert [note.file for note in report.notes] == ["<stdin>"]
