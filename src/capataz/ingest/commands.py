"""What a shell command or an SQL statement does, read from its verbs alone.

Pure, and never a judgement of safety: it only tells looking from acting so that thresholds fit. Whatever is not
known to look is taken to act.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import takewhile

from capataz.events.facts import Kind
from capataz.ingest.shape import several

_READS = several(
    "ls cat head tail less more wc file stat pwd which whereis type du df tree echo printf env printenv date "
    "whoami id hostname uname ps top jobs free uptime history man help diff cmp md5sum sha256sum sha1sum base64 "
    "xxd od hexdump cal host pstree compgen [ [[ strings nl sort uniq cut tr column awk gawk sed jq yq basename "
    "dirname realpath readlink test true false cd pushd popd dig nslookup ping lsof netstat ss getent locale seq "
    "expr bc tac rev fold fmt paste join comm nm objdump readelf ldd sqlite3-ro open goto scroll_up scroll_down "
    "zcat xzcat bzcat squeue sacct sinfo qstat"
)
_SEARCHES = several("grep egrep fgrep zgrep rg ag ack find fd locate search_dir search_file find_file")
_WAITS = frozenset({"sleep", "wait", "watch"})
_WRITES = frozenset({"edit", "create", "insert"})
_MESSAGES = frozenset({"submit", "exit_forfeit"})
_LOOKING = {
    "git": several("status log diff show branch remote blame grep ls-files rev-parse describe reflog tag"),
    "kubectl": frozenset(["get", "describe", "logs", "top", "explain"]),
    "docker": frozenset(["ps", "images", "logs", "inspect", "info", "version"]),
    "pip": frozenset(["list", "show", "freeze"]),
    "npm": frozenset(["list", "ls", "view", "outdated"]),
    "apt": frozenset(["list", "show", "search"]),
    "systemctl": frozenset(["status", "list-units", "show", "is-active"]),
    "conda": frozenset(["list", "info"]),
}
_NOUN_FIRST = several("gh glab aws gcloud az heroku doctl fly flyctl")
_LOOKS = several("view list ls show status checks describe get diff logs info search watch wait")
"""What tools that name the thing before the deed (`gh run view`, `aws ecs describe-services`) call looking."""
_CURL_ACTS = ("-d", "-F", "-T", "-o", "-O", "--data", "--form", "--upload", "--output", "--remote-name", "--json")
_PREFIXES = several("sudo env time timeout nohup command builtin exec nice stdbuf xargs then do else if while !")
_SILENT = frozenset({"cd", "for", "done", "fi", "esac", "case", "in", ":", "export", "set", "local", "Q"})
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"")
_SEPARATORS = re.compile(r"&&|\|\||[;|\n]|(?<![>&])&(?![>&])")
_HARMLESS = re.compile(r"[0-9]?>&[0-9]|&?[0-9]?>{1,2}\s*/dev/null")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_LONGEST = 4000
"""Characters of a command that are looked at: verbs come early, and hostile ones are long."""


_SHELL = re.compile(r"\s*(?:/bin/|/usr/bin/)?(?:ba|z)?sh -l?c (.*)", re.S)
_WRAPPED = re.compile(r"\s*(?:```\w*\s*|execute\[)+(.*?)(?:\]|```)*\s*", re.S | re.I)
_INNER = re.compile(r"[$<>]\(|[`()]")


def unwrapped(action: str) -> str:
    """Without what agents write around a command: a fence, `execute[...]`, `bash -lc "..."`."""
    action = action[:_LONGEST]
    shell = _SHELL.match(action)
    if shell is not None:
        action = shell.group(1).strip()
        action = action[1:-1] if len(action) > 1 and action[0] in "'\"" and action[-1] == action[0] else action
    found = _WRAPPED.fullmatch(action)
    return found.group(1) if found else action


@lru_cache(maxsize=2048)
def command_kind(command: str) -> Kind:
    """The class of a shell command: read, search or poll only if every part of it is known to look or wait.

    >>> command_kind("cd src && grep -rn TODO . | head"), command_kind("cat > a.py <<'X'"), command_kind("sleep 5")
    ('search', 'exec', 'poll')
    """
    plain = _HARMLESS.sub(" ", _QUOTED.sub("Q", unwrapped(command)))
    plain = _INNER.sub(";", plain)
    if ">" in plain or "<<" in plain:
        return "exec"
    kinds = [_part_kind(part.split()) for part in _SEPARATORS.split(plain)]
    told = [kind for kind in kinds if kind is not None]
    for acting in ("exec", "write", "message"):
        if acting in told:
            return acting if len(set(told)) == 1 else "exec"
    if "poll" in told:
        return "poll"
    if "search" in told and told[0] == "search":
        return "search"
    return "read" if told else "exec"


def _part_kind(part: list[str]) -> Kind | None:
    """The class of one simple command; None for what changes nothing (`cd`, an assignment, an empty part)."""
    part = _stripped(part)
    if not part or part[0] in _SILENT or part[0].startswith("#"):
        return None
    verb = part[0].rsplit("/", 1)[-1]
    rest = part[1:]
    if verb in _SEARCHES:
        return "exec" if verb in ("find", "fd") and _find_acts(rest) else "search"
    if verb in _WAITS:
        return "poll"
    if verb == "sed" and any(word.startswith(("-i", "--in-place")) for word in rest):
        return "exec"
    if verb in _READS:
        return "read"
    if verb in _WRITES:
        return "write"
    if verb in _MESSAGES:
        return "message"
    return "read" if _only_looks(verb, rest) else "exec"


def _only_looks(verb: str, rest: list[str]) -> bool:
    """Whether a tool that can do many things is asked to look."""
    if verb in _NOUN_FIRST:
        named = list(takewhile(lambda word: not word.startswith("-"), rest))[1:3]
        return any(word.split("-")[0] in _LOOKS for word in named)
    if verb == "curl":
        return not _curl_acts(rest)
    if verb in _LOOKING:
        return next((word for word in rest if not word.startswith("-")), "") in _LOOKING[verb]
    return rest in (["--version"], ["--help"], ["-h"], ["-V"])


def _curl_acts(rest: list[str]) -> bool:
    """Whether a `curl` sends or keeps something, and does not only look."""
    asks = [word for at, word in enumerate(rest) if at and rest[at - 1] in ("-X", "--request")]
    asks += [word[2:] for word in rest if word.startswith("-X") and len(word) > 2]
    return any(word.upper() not in ("GET", "HEAD") for word in asks) or any(
        word.startswith(_CURL_ACTS) and rest[at + 1 : at + 2] != ["/dev/null"] for at, word in enumerate(rest)
    )


def _find_acts(rest: list[str]) -> bool:
    """Whether a `find` deletes, or runs something that is not known to look."""
    for index, word in enumerate(rest):
        if word.startswith(("-delete", "-ok", "-fprint")):
            return True
        if word.startswith("-exec") and (rest[index + 1] if index + 1 < len(rest) else "") not in _READS | _SEARCHES:
            return True
    return False


def _stripped(part: list[str]) -> list[str]:
    """Without the words in front of the verb: assignments, `sudo`, `timeout 5`."""
    index = 0
    while index < len(part):
        timed = index > 0 and part[index - 1] == "timeout" and part[index][:1].isdigit()
        if not (timed or part[index] in _PREFIXES or _ASSIGNMENT.match(part[index])):
            break
        index += 1
    return part[index:]


def command_target(command: str) -> str | None:
    """The file or folder a looking command looks at: the last word of its first part that is no option."""
    first = _SEPARATORS.split(_QUOTED.sub(lambda found: found.group()[1:-1].replace(" ", "_"), command[:_LONGEST]))[0]
    words = _stripped(first.split())
    named = [word for word in words[1:] if not word.startswith("-")]
    if words and words[0] in _LOOKING:
        named = named[1:]
    return named[-1] if named else None


_SQL_READS = frozenset({"select", "show", "describe", "desc", "explain", "values", "pragma"})
_SQL_ACTS = several(
    "insert update delete create drop alter truncate replace merge grant revoke call load set use begin commit "
    "rollback start lock rename copy vacuum"
)
_SQL_WRITES = re.compile(r"\b(insert\s+into|update\s+\w|delete\s+from|create\s|drop\s|alter\s|truncate\s)", re.I)
_SQL_NOISE = re.compile(r"--[^\n]*|/\*.*?\*/", re.S)


@lru_cache(maxsize=2048)
def sql_kind(statement: str) -> Kind:
    """`read` for statements that only look (SELECT, SHOW, DESCRIBE, EXPLAIN, WITH ... SELECT), `write` for those that
    change something, `exec` for what is no statement at all.

    >>> sql_kind("SELECT 1"), sql_kind("with t as (select 1) select * from t"), sql_kind("DELETE FROM t")
    ('read', 'read', 'write')
    """
    plain = _SQL_NOISE.sub(" ", unwrapped(statement)).lstrip(" \t\r\n(")
    head = plain.split(None, 1)[0].lower().rstrip(";") if plain.split() else ""
    if head in _SQL_READS or (head == "with" and not _SQL_WRITES.search(plain)):
        return "read"
    return "write" if head in _SQL_ACTS or head == "with" else "exec"
