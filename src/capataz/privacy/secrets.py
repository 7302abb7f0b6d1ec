"""Secrets known by where they stand: after a name, in an address, behind a scheme.

A password has no shape; `password=` before it, `://user:` before it or `Bearer` before it is what gives it away. The
names are searched as plain substrings and only then looked at closely. A value that is code, a type, a variable or
an earlier mask is no secret. This module must never mask page tokens and token counts: they are working material.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator

from capataz.privacy.found import Found, places, words

_STRONG = (
    *(
        "passw",
        "passphrase",
        "passcode",
        "contrase",
        "senha",
        "kennwort",
        "palavra-passe",
        "mot de passe",
        "motdepasse",
    ),
    *("pwd", "parola d'ordine", "authorization", "clave secreta"),
)
_WEAK = ("secret", "credential", "signature", "clave", "clau", "token", "key", "cookie", "session", "auth")
_SORTS = {
    **dict.fromkeys(("key", "secret", "credential"), "key"),
    **dict.fromkeys(("token", "authorization", "auth", "cookie", "session", "signature"), "token"),
}
_NAMED_KEY = re.compile(
    r"(?:^|[^a-z])(?:x[-_ ]?)?(?:[a-z0-9]*[-_ ])?"
    r"(?:api|access|private|secret|account|subscription|signing|encryption|auth|app|application|master|service|"
    r"shared ?access|license|storage|consumer|admin|root|deploy|publishable|webhook|hmac|jwt|client|write|read|"
    r"(?:open|x)?ai|aws|gcp|azure|stripe|google|github|gitlab|slack|anthropic|mistral|cohere|groq|maps)[-_ ]?key$"
)
_NAMED_TOKEN = re.compile(
    r"(?:page|next|prev|previous|continuation|cursor|sync|max|min|num|stop|eos|bos|pad|unk|cls|sep|mask|total|input|"
    r"output|prompt|completion|cached|used|per|special|image|last|first|each|ranked|scroll|resume)[-_ ]?(?:page)?"
    r"[-_ ]?token$"
)
_NAMED_ABROAD = (
    (re.compile(r"(?:clé|clave|clau|chave|chiave)s? (?:de |d'|dell')?api$|(?:api|zugangs)[- ]?schlüssel$"), "key"),
    (re.compile(r"(?:jeton|token) (?:d'acc[eè]s|d'accés|de acceso|de acesso|d'accesso|di accesso)$"), "token"),
    (re.compile(r"(?:^\s*|[_.-])(?:pass|mdp|pw)$"), "pass"),
)
"""Names in several words and other languages, and the whole names that are too short to look for inside others."""
_NAMED_AUTH = re.compile(r"(?:^|[^a-z])(?:x[-_]?)?(?:basic[-_]?|proxy[-_]?|http[-_]?|npm_?|_)?auth$")
_SUFFIX = re.compile(
    r"(?:[-_ ]?(?:key|value|val|str|string|hash|base|prod|production|dev|test|staging|live|old|new|current|default|"
    r"access|id|word|wort|ort|ord|d|nya|ña|na|s|header|data|\d{1,3}))*$"
)
_NOT_SUFFIX = re.compile(
    r"(?:token|key|credential|secret|cookie|session|signature)(?:s|[-_ ]?id)$|hash[-_ ]?(?:alg|type|func)"
)


def _backwards(given: str) -> str:
    return "|".join(word[::-1] for word in given.split())


_INSIDE = (
    "passw passph passco contrase senha kennwort pwd ordine authorisation authorization secret credential signature "
    "token key cookie session clave"
)
_ENDING = "passe clau auth schlüssel"
_LAST_WORD = "pass pw mdp"
_WHOLE = "sig code api accès accés acceso acesso accesso"
_HINT = re.compile(
    rf"[\w-]{{0,40}}?(?:{_backwards(_INSIDE)})|(?:{_backwards(_ENDING)})|(?:{_backwards(_WHOLE)})(?![\w-])|"
    rf"(?:{_backwards(_LAST_WORD)})(?![^\W_])"
)
"""Whether a name, read backwards, may promise anything: asked of whatever stands before a sign."""
_NAME = re.compile(r"[\w .'-]{1,44}")
_LAST = re.compile(r"[\w-]{1,44}")
_VALUE = (
    r"(?:[brfu]?(?P<quote>\"\"\"|[\"'`])(?P<quoted>[^\"'`\n]{1,4096})|"
    r"(?P<bare>(?:[^\s\"'`<>,;&|)}\]]|&(?![\w.-]*=|amp;)){3,4096}))"
)
_SET = re.compile(rf"[:=]{{1,3}}>?[ \t]{{0,4}}{_VALUE}")
_SAID = re.compile(
    rf"(?P<suffix>[^\W\d_]{{0,6}})(?: (?:is|es|és|est|ist|è|é|lautet|era|was|to)[ ]?:?[ ]|[ ]+(?=[\"'`])){_VALUE}",
    re.IGNORECASE,
)
_TAGGED = re.compile(r"<(?P<name>[\w:.-]{2,40})>(?P<value>[^<>\s]{3,400})</(?P=name)>")
_SPOKEN = ("pass", "contrase", "senha", "kennwort", "clave", "secret", "token")
_PASSES = ("w", "e ", "phrase", "code")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SCHEME = re.compile(r"(?:bearer|basic|token|apikey|api-key|digest|negotiate|bot|key|ntlm|aws4-hmac-sha256)\s+", re.I)
_REST = re.compile(r"[^\s\"'`<>,;)}\]]+")
_HEADER = re.compile(r"[^\r\n\"'`<>]+")
_OPEN = re.compile(r"\s{1,3}(?P<value>[A-Za-z0-9._~+/=-]{6,})")
_WORDS = words(
    "none null nil true false string str text bytes int integer bool boolean any optional required undefined hidden "
    "redacted masked password passwd secret token value example changeme todo empty missing invalid expired wrong "
    "incorrect correct valid needed reset unknown default number object secretstr field input self bearer basic "
    "contraseña senha contrasenya passwort protected"
)
_MASKED = re.compile(r"<(?:<|[A-Z][A-Z_]+(?:_[0-9]+)?>)")
_CODE = re.compile(
    r"[$%<{\[(*#]|\.\.\.|os\.|env[.\[(]|process\.env|getenv|config[.\[(]|settings\.|self\.|this\.|args\.|req(?:uest)?\.|"
    r"[A-Z]+(?:_[A-Z]+)+$|(?i:your|my|insert|replace|change|put)[-_ ]|input\(|vault:|secret://|arn:aws:|[A-Za-z_][\w.]*\(|[xX*•.\-_]+$|\[?redacted|\w+\[[\"']"
)
_URL = re.compile(
    r":(?:\\?/){2}(?P<user>[^\s:/?#@<>\"'`\\]{0,256}):(?P<pw>[^\s/<>\"'`@]{1,512}(?:@[^\s/<>\"'`@]{1,128})*|"
    r"[^\s<>\"'`@]{1,512})@(?=[\w.\[(%*-])"
)
_LONE = re.compile(r":(?:\\?/){2}(?P<pw>(?=[\w%~.-]*\d)[\w%~.-]{20,256})@(?=[\w.-])")
_DSN = re.compile(r"[\w.-]{1,64}:(?P<pw>[^\s:/@<>\"'`]{1,128})\Z")
_CURL = re.compile(r"-u(?:ser)?(?<![\w]-u)[ =]+[\"']?[^\s:\"'<>]{1,128}:(?P<pw>[^\s\"'<>]{1,256})")
_QUERY_SIGNS = ("?", "&", ";")
_QUERY = frozenset({"key", "sig", "pass", "auth", "sk", "pw"})
_CLIENT = re.compile(
    r"(?:(?:mysql|mariadb)\w*\b[^|;&\n]{0,120}?\s-p|sshpass\s+-p\s*)[\"']?(?P<pw>(?!-)[^\s\"'<>$]{4,256})"
)
_FLAG = re.compile(
    r"--(?:[\w-]{0,24}-)?(?:password|passwd|pass|token|secret|api-?key|access-?key|pwd)[ =]+"
    r"[\"']?(?P<pw>(?!-)[^\s\"'<>$]{4,256})"
)


def in_addresses(text: str) -> Iterator[Found]:
    """Passwords and tokens inside URLs, connection strings and command lines. What is told may overlap."""
    if "@" in text:
        for slashes in ("://", ":\\/\\/"):
            for at in places(text, slashes):
                match = _URL.match(text, at) or _LONE.match(text, at)
                if match is not None and "<" not in match["pw"]:
                    yield Found(*match.span("pw"), "password", "url")
        yield from _in_sources(text)
    if "curl" in text:
        for match in _CURL.finditer(text):
            yield Found(*match.span("pw"), "password", "curl")
    for match in _CLIENT.finditer(text) if " -p" in text else ():
        yield Found(*match.span("pw"), "password", "flag")
    for match in _FLAG.finditer(text) if "--" in text else ():
        yield Found(*match.span("pw"), "password", "flag")


def _in_sources(text: str) -> Iterator[Found]:
    """The way Go writes where a database is: `user:password@tcp(host)`."""
    for mark in ("@tcp(", "@unix("):
        for at in places(text, mark):
            begin = max(0, at - 200)
            match = _DSN.search(text[begin:at])
            if match is not None:
                yield Found(begin + match.start("pw"), begin + match.end("pw"), "password", "dsn")


def after_names(text: str, low: str) -> Iterator[Found]:
    """Values given to names such as `api_key`, `DB_PASSWORD`, `Authorization`. `low` is the lower-case text."""
    for sign in "=:":
        yield from _after_sign(text, low, sign)
    tried = [_said(text, low, word, at) for word in _SPOKEN for at in places(low, word)]
    tried += [_bearer(text, word, at) for word in ("bearer", "basic ") for at in places(low, word)]
    yield from filter(None, tried)
    if "</" in text:
        for match in _TAGGED.finditer(text):
            kind, strength = secret_name(match["name"])
            if looks_secret(match["value"], strength, quoted=True):
                yield Found(*match.span("value"), kind, "tag")


def _after_sign(text: str, low: str, sign: str) -> Iterator[Found]:
    done = 0
    for at in places(low, sign):
        if at >= done and (found := _assigned(text, low, at)) is not None:
            done = found.end
            yield found


def _bearer(text: str, word: str, at: int) -> Found | None:
    match = _OPEN.match(text, at + len(word.rstrip()))
    if match is None or (at and (text[at - 1].isalnum() or text[at - 1] == "_")):
        return None
    value = match["value"]
    if word == "bearer":
        known = any(char.isdigit() for char in value) or len(value) >= (24 if value.isalpha() else 20)
    else:
        known = _is_basic(value)
    return Found(*match.span("value"), "token", word.strip()) if known else None


def _is_basic(value: str) -> bool:
    """Whether it is `user:password` in base64."""
    try:
        raw = b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in raw and raw.isascii() and raw.decode().isprintable()


def _assigned(text: str, low: str, at: int) -> Found | None:
    end = at
    while end and low[end - 1] in " \t\"'`]\\" and at - end < 6:
        end -= 1
    back = low[max(0, end - 45) : end][::-1]
    if _HINT.match(back) is None or (last := _LAST.match(back)) is None:
        return None
    name = _NAME.match(back)
    asked = back[last.end() : last.end() + 1] in _QUERY_SIGNS and last.group()[::-1] in _QUERY
    word, strength = _promise(name.group()[::-1]) if name is not None else ("", "")
    if not (asked or strength):
        return None
    match = _SET.match(text, at)
    if match is None:
        return None
    if asked:
        value = match["bare"] or ""
        known = len(value) >= 8 and any(char.isdigit() for char in value) and not _CODE.match(value)
        return Found(*match.span("bare"), "key", "query") if known else None
    return _held(text, match, word, strength)


def _held(text: str, match: re.Match[str], word: str, strength: str) -> Found | None:
    start, end = _extent(text, match, word)
    value = text[start:end]
    if word == "cookie" and "=" in value and "<" not in value:
        return Found(start, end, "token", "cookie")
    if word == "pwd" and value[:1] in "/~.":
        return None
    if looks_secret(value, strength, quoted=match["quoted"] is not None):
        return Found(start, end, _SORTS.get(word, "password"), "assigned")
    return None


def _said(text: str, low: str, word: str, at: int) -> Found | None:
    if word == "pass" and not low.startswith(_PASSES, at + 4):
        return None
    match = _SAID.match(text, at + len(word))
    if match is None:
        return None
    start, end = match.span("quoted" if match["quoted"] is not None else "bare")
    while end > start and text[end - 1] in " .:!?\\":
        end -= 1
    weak = word in ("secret", "token", "clave")
    if looks_secret(text[start:end], "weak" if weak else "strong", spoken=True):
        return Found(start, end, "password", "said")
    return None


def _extent(text: str, match: re.Match[str], word: str) -> tuple[int, int]:
    """From where to where the value goes: behind the scheme, to the end of the header, without a full stop."""
    quoted = match["quoted"] is not None
    start, end = match.span("quoted" if quoted else "bare")
    if word in ("authorization", "auth") and (scheme := _SCHEME.match(text, start)):
        start = scheme.end()
        rest = _REST.match(text, start)
        end = end if quoted and start < end else rest.end() if rest else start
    elif word == "cookie" and not quoted and (rest := _HEADER.match(text, start)):
        end = rest.end()
    while end > start and text[end - 1] in (" " if quoted else " .:!?\\"):
        end -= 1
    return start, end


def _promise(name: str) -> tuple[str, str]:
    """The telling word in a name, and how much it promises: "strong" (any value is secret), "weak", or nothing."""
    for word in (*_STRONG, *_WEAK):
        at = name.rfind(word)
        if at >= 0:
            strength = _strength(word, name[: at + len(word)], name[at + len(word) :])
            if strength:
                return word, strength
    return next(((word, "weak") for shape, word in _NAMED_ABROAD if shape.search(name)), ("", ""))


def _strength(word: str, name: str, suffix: str) -> str:
    if suffix and (not _SUFFIX.match(suffix) or _NOT_SUFFIX.search(name + suffix)):
        return ""
    if word == "key":
        return "strong" if _NAMED_KEY.search(name) and suffix != "s" else ""
    if word == "token":
        return "" if _NAMED_TOKEN.search(name) else "weak"
    if word == "auth":
        return "weak" if not suffix and _NAMED_AUTH.search(name) else ""
    if word in ("cookie", "session"):
        return "weak" if not suffix else ""
    return "weak" if word in _WEAK else "strong"


def looks_secret(value: str, strength: str = "strong", *, quoted: bool = False, spoken: bool = False) -> bool:
    """Whether a value under such a name is one, and not a type, a variable, a sentence or an earlier mask."""
    if not strength or len(value) < 4 or _CODE.match(value) or value.lower() in _WORDS or _MASKED.search(value):
        return False
    mixed = any(char.isdigit() for char in value)
    if strength == "weak":
        return len(value) >= 8 and (mixed or (len(value) >= 20 and " " not in value)) and value.count(" ") <= 1
    if spoken:
        return mixed or (not value.isalpha() and " " not in value and not value.replace("-", "").isalpha())
    if not quoted and value.isalpha() and value.islower() and len(value) < 6:
        return False
    return " " not in value or (quoted and mixed)


def secret_name(name: str) -> tuple[str, str]:
    """What a key of a dictionary says of its value: the kind, and how much it promises ("strong", "weak", nothing).

    >>> secret_name("DB_PASSWORD"), secret_name("x-api-key"), secret_name("next_page_token")
    (('password', 'strong'), ('key', 'strong'), ('password', ''))
    """
    word, strength = _promise(_CAMEL.sub("_", name).lower()[-60:])
    return _SORTS.get(word, "password"), strength
