"""Write real source and real help texts into the pages that show them, so that no page can go stale.

A page marks a place with `<!-- source: PATH -->` or `<!-- help: capataz run -->`; what stands between it and the next
`<!-- end -->` is replaced. `make docs` writes; `--check` (and a test) only says which pages are stale.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = re.compile(r"(<!-- (source|help): (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
HELP_SECONDS = 30


def source(path: str) -> str:
    return f"```python\n{(ROOT / path).read_text(encoding='utf-8')}```\n"


def help_text(command: str) -> str:
    words = command.split()
    program = Path(sys.executable).with_name(words[0])
    plain = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    asked = [str(program), *words[1:], "--help"]
    shown = subprocess.run(asked, env=plain, capture_output=True, text=True, check=True, timeout=HELP_SECONDS).stdout
    lines = "\n".join(line.rstrip() for line in shown.strip("\n").splitlines())
    return f"```text\n{lines}\n```\n"


def embedded(page: str) -> str:
    """The page as it should be."""

    def fill(match: re.Match[str]) -> str:
        text = source(match[3]) if match[2] == "source" else help_text(match[3])
        return f"{match[1]}{text}{match[4]}"

    return PLACE.sub(fill, page)


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def main(check: bool) -> int:
    stale = 0
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = embedded(before)
        if before != after:
            stale += 1
            print(f"{'stale' if check else 'written'}: {page.relative_to(ROOT)}")
            if not check:
                page.write_text(after, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
