"""How tools say in words that there is nothing, in the languages people build tools in.

Prose counts only where it is short: the words of a full answer may hold any of these. This is data and one question;
it must never name a tool or what was searched for.
"""

from __future__ import annotations

import re

SAID = 200
"""Characters up to which a phrase that says so anywhere counts."""
BARE = 70
"""Characters up to which it is enough that a text begins with a no."""

_THINGS = (
    r"(?:results?|matches|match|hits?|items?|records?|rows?|documents?|docs|entr(?:y|ies)|files?|contacts?|data|pages?"
    r"|messages?|offers?|content|information|products?|events?|emails?|users?|customers?|articles?|orders?|bookings?"
    r"|r[eé]sultats?|resultados?|resultats?|resultaten|resultat|risultat[oi]|ergebnisse?|treffer|eintr[aä]ge?|zeilen"
    r"|coincidencias?|coincid[eè]ncies|correspondances?|corrispondenze|registros?|registres|regist[oa]s?|lignes?|filas?)"
)
_PHRASES = (
    # figures
    rf"(?<![\d.,])0 (?:of [\d.,]+ )?(?:\w+ )?{_THINGS}\b",
    rf"\b{_THINGS} ?[:=(] ?0\b",
    # English
    rf"\b(?:no|zero) (?:\w+ ){{0,3}}?{_THINGS}\b(?! yet)",
    r"\bnothing (?:was |were |to |has |could )?(?:be )?(?:found|matched|matches|here|show|turned|came|returned)",
    r"\bnothing\W*$|\bnot? found\b|\bno (?:such|luck)\b|\bnone found\b|\bnot available\b",
    r"\b(?:did|does|do)(?: not|n't) (?:match|exist|return|find|have)",
    r"\b(?:could|can)(?: ?not|n't) (?:be )?(?:find|found|locate)",
    r"\b(?:is|are|was|came back|returned) empty\b|\bempty (?:result|set|list|response|file)",
    # Spanish, Catalan
    r"\bno (?:se )?(?:ha[ny]? |hubo |he |hemos )?(?:encontr|hall[aó]|localiz|obtuv|obtenido|result|coincid)",
    r"\bno (?:existen?|consta|figura)|\bnada (?:encontrad|que mostrar)|\bsin (?:resultados|coincidencias|datos)",
    r"\bning[uú]n[ao]? (?:result|registr|coincid|elem|docu)",
    r"\bno (?:s'ha|s'han|hem|he) (?:trobat|obtingut)|\bsense (?:resultats|coincid|dades)|\bcap (?:result|coincid|elem)",
    r"\bno (?:hi ha|existeix\w*) (?:cap\b|result|coincid|dades)|\bres trobat",
    # French
    r"\baucune? \w+|\brien (?:trouv|n'a)|(?:n'a|n'ont|n'avons) (?:rien|pas) (?:donn|trouv)|\bpas de (?:r[ée]sult|donn)",
    r"\bintrouvable|\bil n'y a (?:pas|aucun|rien)",
    # German, Dutch
    r"\bkeine? (?:\w+ )?(?:ergebnis|treffer|eintr|daten|dokument|artikel|resultat)|\bnichts gefunden|\bnicht gefunden",
    r"\bohne (?:ergebnis|treffer)|\bgeen (?:\w+ )?(?:resulta|treffer|gegevens)|\bniets gevonden|\bniet gevonden",
    # Italian, Portuguese
    r"\bnessun[oa]? \w+|\bnon (?:è|e|ho|sono|abbiamo) (?:stat[oaie] )?trovat|\bniente (?:trovat|da)",
    r"\bnenhum\w* \w+|\bn[aã]o (?:foi|foram|h[aá]|exist)|\bsem resultados|\bnada (?:foi )?encontrad",
    # Polish, Swedish, Norwegian, Danish, Finnish, Turkish
    r"\bbrak (?:wynik|danych|rekord)|\bnie (?:znalezion|ma )|\b(?:inga|ingen|intet) (?:result|träff|treff|fund|poster)",
    r"\bei (?:tuloks|löyty|osum)|\bbulunamad|\bsonuç yok",
    # Russian, Greek, Arabic, Chinese, Japanese, Korean
    r"\bне (?:найден|удалось найти)|\bничего не|\bнет (?:результат|данных|совпаден)|\bδεν (?:βρέθηκ|υπάρχ)",
    r"لا توجد|لم يتم العثور|没有|未找到|找不到|無結果|无结果|見つかりません|結果なし|該当なし|없습니다|찾을 수 없",
)  # fmt: skip
_PHRASE = re.compile("|".join(_PHRASES), re.IGNORECASE)
_BEGINS = re.compile(
    r"\W*(?:(?:there (?:are|is|were|was) )?(?:no|none)|nothing|ning[uú]n[ao]?|sense|(?:leider )?keine?|nichts|aucune?"
    r"|pas de|il n'y a|nessun[oa]?|niente|nenhum\w*|geen|niets|нет|ничего)\b(?!\.? ?\d|,| problem\w*)",
    re.IGNORECASE,
)
_EMPTY = re.compile(
    r"\W*(?:(?:the|die|das|la|el|il|a|o|de) )?(?:(?:list|result|resp|ergebnis|antwort|lijst)\w* )?"
    r"(?:(?:is|ist|est|est[aá]|è|és) )?(?:empty|leer|vac[ií][oa]|bui[td]a?|vide|vuot[oa]|vazi[oa]|leeg|tyhjä|пусто)\W*",
    re.IGNORECASE,
)
_HINT_WORDS = """
    0 no not zero nothing none cannot can could couldn did didn do don does doesn empty sin ningún ningun ninguno
    ninguna nada vacío vacio vacía vacia sense cap res buit buida buido aucun aucune rien pas n introuvable vide kein
    keine nichts nicht ohne leer geen niets niet leeg nessun nessuno nessuna non niente vuoto vuota nenhum nenhuma não
    nao sem vazio vazia brak nie inga ingen intet ei tyhjä bulunamadı bulunamadi sonuç
"""
_HINTS = frozenset(_HINT_WORDS.split())
"""A word of every phrase above, in the alphabets that have words: without one of these nothing else is tried."""
_WORD = re.compile(r"\w+")
_BLANK = frozenset(("none", "null", "nil", "n/a", "undefined"))
_HEADED = re.compile(r"\|[^\n]*\|\s*\n\|[-:| ]+\|\s*")
"""A table that is only its head."""


def says_nothing(text: str) -> bool:
    """Whether these words, the answer of a search, say that it found nothing.

    >>> says_nothing("Keine Treffer."), says_nothing("0 resultats"), says_nothing("No. 5 Main Street")
    (True, True, False)
    """
    text = text.strip()
    if not any(letter.isalnum() for letter in text) or text.lower() in _BLANK:
        return len(text) < BARE
    if len(text) > SAID:
        return False
    if max(text) < "\u0370" and _HINTS.isdisjoint(_WORD.findall(text.lower())):
        return _HEADED.fullmatch(text) is not None
    if len(text) <= BARE and (_BEGINS.match(text) or _EMPTY.fullmatch(text)):
        return True
    return _PHRASE.search(text) is not None
