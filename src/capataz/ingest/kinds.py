"""What a tool of somebody else's probably does: its class and its target, guessed from name, hints and arguments.

Pure. A guess says why, so that it can be shown and overruled; a tool nothing is known of is taken to act (`exec`),
because treating an act as a look is the costlier mistake. It must never be used to decide that an act is safe.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from capataz.events.facts import JSON, Kind
from capataz.ingest.commands import command_kind, command_target, sql_kind
from capataz.ingest.shape import several

Hints = Mapping[str, JSON]
"""What a record says of a tool: MCP annotations (`readOnlyHint`, `destructiveHint`), a description."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A tool's class, the name of the argument that says what is acted on, and the ground for both."""

    kind: Kind
    target: str | None
    why: str


_WORDS: Mapping[Kind, frozenset[str]] = {
    "poll": frozenset({"poll", "wait", "sleep", "status", "progress", "await", "monitor", "heartbeat"})
    | several("esperar aguardar attendre warten aspettare"),
    "message": several(
        "send reply forward notify message email sms say tell respond ask answer announce post comment submit "
        "finish finished final handoff escalate chat call "
        "enviar mandar responder avisar notificar escalar envoyer repondre senden antworten inviare rispondere"
    ),
    "search": several(
        "search find grep glob query lookup locate rg discover retrieve match seek "
        "buscar busca cercar rechercher chercher suchen suche cercare procurar pesquisar"
    ),
    "read": several(
        "read get list view show fetch describe open load cat ls look inspect check count browse think scroll "
        "goto calculate compute total history info information details detail preview diff head tail stat "
        "validate verify explain select analyze analyse summarize summarise translate classify extract parse "
        "average "
        "consultar obtener leer listar ver mostrar comprobar revisar obtenir llegir llistar veure lire afficher "
        "consulter lesen zeigen holen abrufen anzeigen pruefen obter ler leggere mostrare elencare ottenere"
    ),
    "write": several(
        "create update delete add remove edit write insert set cancel book modify exchange return transfer refund "
        "pay move rename upload save put patch schedule assign apply approve reject close order buy purchase "
        "replace todo append drop merge commit push publish register subscribe reserve charge withdraw deposit "
        "undo mark plot grant revoke enable disable archive restore reset store memorize remember upsert change "
        "copy "
        "crear actualizar borrar eliminar anular cancelar reservar pagar reembolsar guardar modificar cambiar "
        "asignar agregar actualitzar esborrar reemborsar desar canviar afegir creer supprimer annuler reserver payer "
        "rembourser ajouter enregistrer erstellen anlegen aktualisieren loeschen stornieren buchen bezahlen "
        "erstatten speichern criar atualizar apagar excluir salvar adicionar alterar creare aggiornare eliminare "
        "annullare prenotare pagare rimborsare salvare aggiungere modificare"
    ),
    "exec": several(
        "bash shell exec execute run python terminal command code computer click type browser deploy sandbox "
        "script eval invoke task agent spawn kill stop start install build test navigate press drag powershell sh "
        "ipython jupyter repl delegate subagent"
    ),
}
_STATES = several("status progress estado estat statut stato zustand")
"""To look at one of these is to ask how far something is."""
_NAMED: Mapping[str, Kind] = {
    "bashoutput": "poll",
    "taskoutput": "poll",
    "getbashoutput": "poll",
    "writestdin": "poll",
    "readbackgroundoutput": "poll",
    "todowrite": "write",
    "todoread": "read",
    "updateplan": "write",
    "strreplaceeditor": "write",
    "exitplanmode": "message",
    "askuserquestion": "message",
    "attemptcompletion": "message",
    "askfollowupquestion": "message",
    "webfetch": "read",
    "think": "read",
    "calculator": "read",
    "calculate": "read",
    "transfertohumanagents": "message",
    "searchreplace": "write",
    "applypatch": "write",
    "multiedit": "write",
    "notebookedit": "write",
    "openfile": "read",
    "gotoline": "read",
}
"""Tools of wide-spread runtimes whose name misleads."""

_SHELLS = several(
    "bash shell sh terminal execcommand shellcommand localshell runcommand executebash cmdrun cmdruntool "
    "runshellcommand runterminalcmd executecommand bashcommand"
)
_SQL = frozenset({"sql", "runsql", "executesql", "sqlquery", "runquery", "executequery", "querydatabase", "sqldbquery"})
_COMMAND = ("command", "cmd", "commands", "script", "input")
_STATEMENT = ("sql", "query", "statement", "input")
_TARGETS = (
    "target path file_path filepath filename file_name file notebook_path directory dir folder url uri link",
    "to recipient recipients email address channel id key name title table resource",
    "query pattern search_term search_query q keyword",
)
"""Names of arguments that say what is acted on, the surest first."""
_SPLIT = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ORDER: tuple[Kind, ...] = ("poll", "search", "read", "message", "write", "exec")


@lru_cache(maxsize=4096)
def words(name: str) -> tuple[str, ...]:
    """The lower-case words of a tool's name, whatever glues them: dots, dashes, underscores, humps."""
    return tuple(word.lower() for word in _SPLIT.split(name[:200]) if word)


def guess(tool: str, arguments: Mapping[str, JSON], hints: Hints | None = None) -> Guess:
    """What a call of this tool with these arguments does.

    Hints come first, then commands and SQL statements read for what they do, then the words of the name, then the
    shape of the arguments.

    >>> guess("Bash", {"command": "ls -la src"}).kind, guess("delete_order", {"order_id": "7"}).target
    ('read', 'order_id')
    """
    named = _by_name(tool)
    if (by_hint := _by_hint(tool, hints)) is not None:
        return Guess(by_hint, target_of(tool, arguments), "the record's own hint")
    flat = "".join(words(tool))
    if flat in _SHELLS and (command := _first_text(arguments, _COMMAND)) is not None:
        return Guess(command_kind(command), None, "the commands it ran")
    if flat in _SQL and (statement := _first_text(arguments, _STATEMENT)) is not None:
        return Guess(sql_kind(statement), None, "the statement it ran")
    if named is not None:
        return Guess(_sharpened(flat, named, arguments), target_of(tool, arguments), "its name")
    shaped = _by_arguments(arguments)
    if shaped is not None:
        return Guess(shaped, target_of(tool, arguments), "its arguments")
    return Guess("exec", target_of(tool, arguments), "nothing known: taken to act")


def target_value(target: str | None, tool: str, arguments: Mapping[str, JSON], kind: Kind) -> str | None:
    """What this call acts on: the value of the target argument, or the file a shell command reads."""
    if target is not None:
        value = arguments.get(target)
        return None if value is None or isinstance(value, (dict, list)) else str(value)[:500]
    if kind in ("read", "search") and "".join(words(tool)) in _SHELLS:
        command = _first_text(arguments, _COMMAND)
        return None if command is None else command_target(command)
    return None


def target_of(tool: str, arguments: Mapping[str, JSON]) -> str | None:
    """Name of the argument that most likely says what is acted on; None where no argument looks like it."""
    if not arguments:
        return None
    plain = {name.lower(): name for name in arguments if not isinstance(arguments[name], (dict, list))}
    nouns = words(tool)
    for low, name in plain.items():
        if low.endswith(("_id", "id")) and any(noun.rstrip("s") in low for noun in nouns if len(noun) > 2):
            return name
    for wanted in " ".join(_TARGETS).split():
        if wanted in plain:
            return plain[wanted]
    for low, name in plain.items():
        if low.endswith(("_id", "_path", "_url", "_name", "_email")):
            return name
    return None


def _by_hint(tool: str, hints: Hints | None) -> Kind | None:
    if not hints:
        return None
    if hints.get("readOnlyHint") is True:
        named = _by_name(tool)
        return named if named in ("search", "poll", "read") else "read"
    if hints.get("destructiveHint") is True or hints.get("readOnlyHint") is False:
        named = _by_name(tool)
        return named if named in ("write", "exec", "message") else "write"
    return None


@lru_cache(maxsize=4096)
def _by_name(tool: str) -> Kind | None:
    """The first verb decides (`get_email` reads, `email.send` sends); words that are also nouns come last."""
    found = words(tool)
    flat = "".join(found)
    if flat in _NAMED:
        return _NAMED[flat]
    for word in found:
        kind = None if word in _NOUNS else _KIND_OF.get(word)
        if kind is not None:
            return "poll" if kind == "read" and found[-1] in _STATES else kind
    told = {_KIND_OF[word] for word in found if word in _KIND_OF}
    return next((kind for kind in _ORDER if kind in told), None)


_KIND_OF: Mapping[str, Kind] = {word: kind for kind in reversed(_ORDER) for word in _WORDS[kind]}
_NOUNS = several(
    "email message order status task agent code command test comment post call chat list file python history info "
    "information details detail computer browser schedule store script progress answer final todo query total "
    "count average head change plot terminal shell"
)
"""Words that are a verb only where nothing else in the name is one."""


def _sharpened(flat: str, named: Kind, arguments: Mapping[str, JSON]) -> Kind:
    """A name that says less than the arguments do: an editor told to `view`, a query that is a statement."""
    command = arguments.get("command")
    if flat in ("strreplaceeditor", "strreplacebasededittool", "editor") and command == "view":
        return "read"
    if named == "search" and (statement := arguments.get("query")) is not None and isinstance(statement, str):
        return sql_kind(statement) if _STATEMENT_HEAD.match(statement) else named
    return named


_STATEMENT_HEAD = re.compile(
    r"\s*(select|insert|update|delete|create|drop|alter|show|describe|with)\b.*\s", re.I | re.S
)


def _by_arguments(arguments: Mapping[str, JSON]) -> Kind | None:
    names = {name.lower() for name in arguments}
    if (command := _first_text(arguments, ("command", "cmd"))) is not None:
        return command_kind(command)
    if names & {"code", "script", "source_code"}:
        return "exec"
    if names & {"content", "body", "text", "new_string", "patch", "file_text"}:
        return "message" if names & {"to", "recipient", "recipients", "channel"} else "write"
    if names & {"query", "pattern", "search_term", "keyword", "keywords", "q"}:
        return "search"
    if names and names <= {"path", "file_path", "url", "uri", "filename", "id", "limit", "offset", "page"}:
        return "read"
    return None


def _first_text(arguments: Mapping[str, JSON], names: tuple[str, ...]) -> str | None:
    for name in names:
        value = arguments.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            return " ".join(str(item) for item in value)
    return None
