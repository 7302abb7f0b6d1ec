"""What the words before a number say it is: a telephone, a person's id, or something of the business.

A bare nine-digit number is a telephone in Spain and an order in the next sentence. The nearest word that means
something decides; words in between that mean nothing to it end the search for a business word early, so that "order
shipped, call 612…" stays a telephone. This module must never look across another number, a line or a placeholder:
what was masked before must not change what is masked next.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Literal

from capataz.privacy.found import words

Meaning = Literal["phone", "id", "business", ""]

REACH = 48
"""Characters looked at before the number."""

NEAREST = 6
"""Words looked at, from the nearest."""

_BACK = re.compile(r"([^\W\d_]+|[#№€$£¥])|[\d<>@\n,;{}\[\]|]")
"""In a text read backwards, a word, or what nothing is looked for beyond."""
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")

_PHONE = words(
    "phone phones phonenumber tel telf tlf tfno tfn tlfn telephone telephones teléfono teléfonos telefono telèfon "
    "telèfons téléphone telefon telefonnummer telefone telefones telemóvel telemovel móvil movil móviles mòbil mòbils "
    "mobile mobil mobilnummer mobiltelefon cell cellphone cellulare cel celular handy handynummer portable whatsapp "
    "sms fax msisdn rufnummer rückrufnummer telefonnr telephonenumber phoneno mobileno fon fijo fixe fisso festnetz "
    "telèfonic telefónico hotline telegram signal wa"
)
_CALLING = words(
    "call calls calling ring dial text llámame llamame llámanos llamar llama llame llamad llámeme trucar truca truqueu "
    "truqui appelez appelle appeler rappelez joindre joignable ruf rufe rufen anrufen erreichbar chiama chiamami "
    "chiamare chiamate ligue liga ligar contact contacto contacte contacta contactar contatto contato kontakt reach "
    "número numero numéro nummer number"
)
_ID = words(
    "dni nif nie cif ssn itin ein tin nir nino nhs bsn siren siret cpf cnpj cuit curp rfc rut pesel steuer steuerid "
    "steueridnr steuernummer steuernr idnr identifikationsnummer identnr contribuinte contribuyente contribuent fiscal "
    "fiscale fiscales iva vat piva partita tax taxid taxpayer social sociale seguridad seguretat security sécurité "
    "sicurezza segurança sozialversicherungsnummer sozialversicherung insee vitale insurance national passport "
    "pasaporte passaport passeport reisepass passaporte personalausweis ausweis cittadino cidadão citizen personal "
    "identity identidad identitat identité identità identidade niss nuss naf ahv avs sin taxnumber nationalid"
)
_BUSINESS = words(
    "order orders pedido pedidos comanda comandes commande bestellung bestellnummer bestellnr auftrag auftragsnummer "
    "ordine ordini encomenda orden invoice invoices factura facturas factures facture rechnung rechnungsnummer "
    "rechnungsnr fattura fatura ticket tickets tiquet ref reference referencia referència référence referenz "
    "referenznummer riferimento referência tracking seguimiento seguiment suivi sendung sendungsnummer spedizione "
    "envío envio enviament shipment parcel package paquete paquet colis pacco uuid guid sku isbn issn ean gtin upc "
    "asin doi serial serie sèrie série seriennummer seriale timestamp ts epoch unix time offset size bytes port pid "
    "tid build version versió versión versione commit sha hash checksum crc md5 session sesión trace span request req "
    "response article artículo artikel artikelnummer articolo artigo producto producte product produit produkt item "
    "lote lot batch charge case caso cas expediente expedient dossier vorgang vorgangsnummer aktenzeichen pratica "
    "processo contract contrato contracte contrat vertrag vertragsnummer contratto póliza polissa police polizza "
    "apólice cuenta compte conto konto kontonummer account conta customer cliente client kunde kundennummer job task "
    "run row line page página pàgina total importe import amount montant betrag importo valor price precio preu prix "
    "preis prezzo preço cost coste count counter sum balance saldo invoiceid orderid orderno ordernumber transaction "
    "transacción transacció transaktion transazione transação txn payment pago pagament paiement zahlung pagamento "
    "booking reserva reservation réservation buchung buchungsnummer prenotazione code código codi codice coupon "
    "po awb hawb mawb bl cmr ups gls dhl fedex seur mrw eur usd gbp chf jpy cop mxn ars brl clp "
    "distance distancia seed id ids idx index key pk uid gid msg message event user población población "
    "population habitantes imei imsi "
    "iccid vin plate matrícula model modelo modell modello part pieza catalog catàleg stock inventory barcode weight "
    "peso pes gewicht width height length duration elapsed lat lon lng latitude longitude pi phi zip postal"
) | frozenset("#№€$£¥")
_NEUTRAL = words(
    "is es és est ist è é n no nr núm num nbr numb nº n° of de del della du der the la el le il lo o a os i my mi meu "
    "mon ma mein meine mio mia number número numero numéro nummer : num. was era eran son are with con amb avec mit "
    "value current new nuevo nou"
)
_SORTS: dict[str, str] = {
    **dict.fromkeys(_CALLING, "calling"),
    **dict.fromkeys(_NEUTRAL, "neutral"),
    **dict.fromkeys(_BUSINESS, "business"),
    **dict.fromkeys(_ID, "id"),
    **dict.fromkeys(_PHONE, "phone"),
}
_AFTER = re.compile(
    r"\s?(?:[€$£¥%]|(?:EUR|USD|GBP|euros?|d[oó]lar(?:e?s)?|dollars?|bytes?|[kKMGT]i?B|ms|ns|µs|secs?|seconds|segundos|"
    r"km|kg|rows|users|usuarios|habitantes?|habitants?|inhabitants|Einwohner|abitanti|people|personas|persones|"
    r"tokens?|m|metros|metres|meters|views|visit\w*|vegades|veces|vezes|fois|volte|clicks|clics|downloads|items|units|unidades|unitats|requests|events)\b)"
)


def meaning(text: str, start: int, floor: int, key: str = "") -> Meaning:
    """What the words say that stand before `start`, not looking beyond `floor`.

    `key` is the name the whole text stands under (of a field), as if it were written before it.
    """
    low = max(floor, start - REACH)
    before = text[low:start]
    if low == 0 and key:
        before = f"{key}: {before}"
    return _nearest(islice(_words(before), NEAREST))


def _words(before: str) -> Iterator[str]:
    """The words, nearest first."""
    for match in _BACK.finditer(before[::-1]):
        if match[1] is None:
            return
        word = match[1][::-1]
        if word.islower():
            yield word
        else:
            yield from _CAMEL.sub(" ", word.replace("IdNr", "idnr")).lower().split()[::-1]


def _nearest(nearest_first: Iterable[str]) -> Meaning:
    numbered = strange = calling = False
    for word in nearest_first:
        if word == "id":
            numbered = True
            continue
        sort = _SORTS.get(word)
        if sort == "phone":
            return "business" if numbered else "phone"
        if sort == "id":
            return "id"
        if sort == "business" and not (strange or calling):
            return "business"
        if sort == "calling":
            calling = True
        elif sort != "neutral":
            strange = True
    if numbered:
        return "business"
    return "phone" if calling else ""


def counted(text: str, end: int) -> bool:
    """Whether a unit or a currency follows: then the number is an amount."""
    return end < len(text) and text[end] in " €$£¥%ekKMGTmnsuhiaprtvfcEUdDbB" and _AFTER.match(text, end) is not None
