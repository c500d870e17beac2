"""Words by which a summary speaks of the user, and words that say nothing of what was asked; in four languages.

English is covered well, German, French and Spanish by their commonest forms.
"""

from __future__ import annotations

import re


def _either(words: str) -> str:
    return "|".join(words.split())


_EN_VERBS = """
accepted accepts agreed agrees allowed allows approved approves ask asked asks authorised authorises authorized
authorizes chooses chose clarified clarifies complained complains confirmed confirms decided decides declined declines
demanded emphasised emphasises emphasized emphasizes expected expects explained explains forbade forbids gave insisted
insists instructed instructs like liked mentioned mentions need needed needs noted objected ordered permitted
preferred prefers refused refuses rejected rejects reminded reminds reported request requested requests require
required requires said says specified specifies stated stressed stresses suggested suggests tells told want wanted
wants warned warns wished wishes
"""
_EN_WANTED_TOO = """
accept agree allow approve authorise authorize complain confirm decide decline demand demands dislike dislikes
emphasise emphasize expect explain forbid insist instruct likes mention notes objects orders permit permits prefer
refuse reject report reports states suggest tell wish
"""
"""Forms of the same verbs that name what a user may ask for as well, so that they are content."""
_DE_VERBS = """
abgelehnt angefordert angeordnet angewiesen ausgewählt bat beauftragt beschlossen bestand bestanden besteht bestätigt
bestätigte bevorzugt bevorzugte braucht entschied entschieden erbeten erlaubt erlaubte festgelegt fordert forderte
freigegeben gebeten gebilligt gefordert genehmigt genehmigte gesagt gewollt gewählt gewünscht lehnt lehnte möchte sagt
sagte untersagt untersagte verbietet verbot verboten vereinbart verlangt verlangte vorgegeben vorgeschlagen will
wollte wählte wünscht wünschte zugestimmt
"""
_FR_VERBS = """
approuvé autorisé choisi confirmé demandait demande demandé dit décidé exige exigé insiste insisté préfère préférait
préféré refuse refusé souhaitait souhaite veut voulait voulu
"""
_FR_PARTICIPLES = """
approuvé approuvée approuvées approuvés autorisé autorisée autorisées autorisés confirmé confirmée confirmées
confirmés demandé demandée demandées demandés décidé décidée décidées décidés exigé exigée exigées exigés préféré
préférée préférées préférés refusé refusée refusées refusés souhaité souhaitée souhaitées souhaités validé validée
validées validés
"""
_FR_ADJECTIVES = """
choisi choisie choisies choisis requis requise requises voulu voulue voulues voulus
"""
"""Participles that are said of programs as well, so that only those right before the user count."""
_ES_VERBS = """
aprobado aprobó confirmó decidido decidió desea dice dicho dijo elegido elige eligió exige exigió insiste insistió
pedido pide pidió prefería prefiere prohibido prohibió querido quería quiere rechaza rechazado rechazó solicita
solicitado solicitó
"""
_ES_PARTICIPLES = """
aprobada aprobadas aprobado aprobados confirmada confirmadas confirmado confirmados decidida decididas decidido
decididos exigida exigidas exigido exigidos pedida pedidas pedido pedidos preferida preferidas preferido preferidos
querida queridas querido queridos solicitada solicitadas solicitado solicitados
"""
_EN_NOUNS = (
    "requests?|requirements?|instructions?|wish(?:es)?|preferences?|decisions?|orders?|demands?|approval|rules?|goals?"
)
_EN_ASKED = (
    "approved|asked|authori[sz]ed|chosen|confirmed|decided|demanded|instructed|ordered|preferred|rejected|requested|"
    "required|specified|stated|told|wanted"
)
PATTERNS = {
    "en": re.compile(
        rf"(?:\b(?:the|our|this) )?\buser\b(?:\W{{1,3}}\w+){{0,3}}?\W{{1,3}}(?:{_either(_EN_VERBS + _EN_WANTED_TOO)}|"
        r"pointed out|would (?:like|prefer|rather))\b"
        rf"|\b(?:the )?user(?:['’]s)? (?:\w+ )?(?:{_EN_NOUNS})\b"
        rf"|\b(?:{_EN_ASKED})(?: for)?(?: \w+)? by the (?:user|developer|owner|human)\b"
        # Of others than the user, and of nobody, only what cannot be said of a program.
        r"|\b(?:the|our) (?:developer|owner|human|client)(?: \w+ly| also| then)? (?:asked|demanded|insisted|"
        r"instructed|ordered|wanted)\b"
        r"|\b(?:the|our) (?:developer|owner|human)(?: \w+ly| also| then)? (?:requested|requests|told|wants)\b"
        r"|\b(?:we|I)(?: (?:was|were)|['’]ve been| ha(?:ve|d) been)(?: also| then| \w+ly)? (?:asked|instructed|ordered|"
        r"requested|told)\b"
        r"|\bas (?:was |we |we had )?(?:\w+ly )?(?:agreed(?: upon| on)?|asked(?: for)?|instructed|ordered|requested)\b"
        r"(?! (?:by|in|from|with)\b)"
        r"|\b(?:agreed|agreement|arranged|discussed|settled) with the (?:user|developer|owner|client)\b"
        r"|\b(?:we|I)(?: ha(?:ve|d)|['’]ve)?(?: also| then)? agreed (?:on|that|to|upon)\b|\bit was agreed\b"
        r"|\bit (?:was|has been) (?:\w+ly )?(?:asked|demanded|ordered|requested) (?:that|to)\b"
        r"|\bthe (?:original |initial )?request (?:is|was) (?:that\b|to (?!(?:a|an|be|our|that|the|this)\b)[a-z]+ )"
        r"|\bthe (?:assignment|job|task)s? (?:(?:that|which|as) )?(?:(?:was|were) )?(?:assigned|given|set)\b"
        r"|\bthe (?:assigned|given) (?:assignment|job|task)s? (?:is|was|are|were)\b"
        r"|\b(?:my|our|the|your) (?:assignment|task)\W{0,4}(?:(?: (?:is|was))?:\W| (?:is|was) to (?!be\b))"
        r"|\b(?:according to|per) the user\b|\b(?:demands?|instructions?|orders?|requests?|wish(?:es)?) of the user\b",
        re.IGNORECASE,
    ),
    "de": re.compile(
        r"\b(?:[Dd](?:er|ie|em|en)|[Dd]es|[Vv]om) (?:[Bb]enutzer|[Nn]utzer|[Aa]nwender|User)(?:s|in)?\b[^.!?]{0,160}?"
        rf"\b(?:{_either(_DE_VERBS)})\b"
        r"|\b(?:Anforderung(?:en)?|Anweisung(?:en)?|Auftrag|Bitten?|Einverständnis|Entscheidung(?:en)?|Freigabe|"
        r"Genehmigung|Regeln?|Verlangen|Vorgaben?|Wunsche?s?|Wünschen?|Zustimmung) (?:des|der|vom)"
        r" (?:[Bb]enutzer|[Nn]utzer|[Aa]nwender)(?:s|in)?\b"
        r"|\b[Ww]ie (?:(?:vom|von dem) (?:Benutzer|Nutzer|Anwender) )?(?:abgesprochen|besprochen|gefordert|gewünscht|"
        r"verlangt|vereinbart)\b"
        r"|\b(?:[Ll]aut|[Gg]emäß) (?:[Dd]em )?(?:Benutzer|Nutzer|Anwender)(?:in)?\b"
        r"|\b[Ee]s wurde (?:\w+ )?(?:darum gebeten|beauftragt)\b"
        r"|\b[Dd](?:ie (?:gestellte )?Aufgabe|er (?:erteilte )?Auftrag) (?:ist|lautete?|war)"
        r"(?:[,:]| (?:es|folgende[rs]?)\b)"
        r"|\b[Ww]unschgemäß\b|\b[Mm]it dem (?:Benutzer|Nutzer|Anwender) (?:abgesprochen|besprochen|vereinbart)\b"
    ),
    "fr": re.compile(
        r"\b(?:l['’]|par l['’])utilisat(?:eur|rice)\b[^.!?]{0,40}?"
        rf"\b(?:{_either(_FR_VERBS)})\b"
        rf"|\b(?:{_either(_FR_PARTICIPLES)})\b"
        r"[^.!?]{0,40}?\bpar l['’]utilisat(?:eur|rice)\b"
        rf"|\b(?:{_either(_FR_ADJECTIVES)}) par l['’]utilisat(?:eur|rice)\b"
        r"|\b(?:accord|choix|consignes?|décisions?|demandes?|exigences?|instructions?|règles?|souhaits?|volonté)"
        r" de l['’]utilisat(?:eur|rice)\b"
        r"|\b(?:d['’]après|selon) l['’]utilisat(?:eur|rice)\b|\bcomme (?:convenu|demandé|souhaité)\b"
        r"|\bconvenu avec l['’]utilisat(?:eur|rice)\b|\bla tâche (?:est|était) (?:de |d['’]|: ?)",
        re.IGNORECASE,
    ),
    "es": re.compile(
        r"\b(?:el usuario|la usuaria)\b[^.!?]{0,40}?"
        rf"\b(?:{_either(_ES_VERBS)})\b"
        rf"|\b(?:{_either(_ES_PARTICIPLES)}) por (?:el usuario|la usuaria)\b"
        r"|\b(?:acuerdo|decisión|deseos?|instrucci(?:ón|ones)|órdenes|petición|reglas?|solicitud)"
        r" (?:del usuario|de la usuaria)\b"
        r"|\b(?:según (?:el usuario|la usuaria)|como se (?:acordó|pidió|solicitó)|"
        r"según lo (?:acordado|pedido|solicitado)|la tarea (?:era|es)(?= [a-záéíóú]+[aei]r\b))\b",
        re.IGNORECASE,
    ),
}
NEGATED = re.compile(
    r"\buser\W+(?:\w+\W+)?(?:(?:has|have|had|did|does|was|is)(?:n['’]t| not| never)|never)\W+(?:\w+\W+)?"
    r"(?:ask|answer|confirm|decide|mention|report|request|respond|said|say|specif|state|tell|told|yet)",
    re.IGNORECASE,
)
ALSO = re.compile(
    rf"(?:\b(?:and|but|yet|instead|then)|[;,])\W+(?:\w+\W+){{0,2}}?(?:{_EN_ASKED}|asks|insist(?:s|ed)|prefers|requests|"
    r"said|says|tells|wants)\b",
    re.IGNORECASE,
)
"""What the user did say after all, behind what the user did not."""
SUPPOSED = re.compile(r"\b(?:if|when|whenever|unless|until|whether|any|each|every|a)\s+(?:the\s+)?\Z", re.IGNORECASE)
NOT_SO = re.compile(r"(?:\b(?:not|never|nor)|n['’]t)\s+(?:\w+\s+)?\Z", re.IGNORECASE)
AGREED = re.compile(
    r"\b(?:accept|agree|arranged|settled|discuss|vereinbart|besprochen|abgesprochen|zugestimmt|einverst|zustimm|convenu|accord|acord|allow|approv|authori[sz]|choos|chose|confirm|decid|decision|genehmig|bestätig|erlaub|entschied|"
    r"approuv|autoris|décid|aprob|decidi)",
    re.IGNORECASE,
)
REJECTED = re.compile(r"\b(?:reject|declin|refus|forbade|forbid|said no\b)", re.IGNORECASE)
NO = re.compile(r"\W*(?:no|nope|nah|don['’]?t|do not|rather not|stop|never|nein|nicht|non|ne)\b", re.IGNORECASE)
DECLINES = re.compile(
    r"\b(?:against|avoid|bad|cannot|declin\w*|dislike|don['’]?t|drop|enough|except|forbid\w*|hate|instead|leave|nah|nein|"
    r"never|nicht|no|non|none|nope|nor|not|nothing|prefer\w*|rather|refus\w*|reject\w*|remove|revert|skip|stop|than|undo|"
    r"unless|without|worse|wrong)\b|n['’]t\b",
    re.IGNORECASE,
)
"""What a message has in which something is refused."""
YES = re.compile(
    r"\W*(?:yes|yep|yeah|ok|okay|sure|go ahead|go on|continue|proceed|please do|do it|do that|approved|agreed|correct|"
    r"right|exactly|fine|good|great|perfect|sounds|looks good|lgtm|option|the (?:first|second|third|former|latter)|\d|"
    r"[a-d]|ja|jo|genau|gut|passt|mach|weiter|einverstanden|oui|d['’]accord|vas-y|sí|si|vale|adelante|claro)\b",
    re.IGNORECASE,
)
_EN_STOPS = """
a about after all also always an and any are as asked at be because been before being but by can could did do does
done during each earlier either else ever every explicitly first following for from further had has have he her here
him his how i if in initially instead into is it its later like made make me more must my need needs no not now of off
on once one only or other our out over own per please rather same second she should so some such than that the their
them then there these they this those through to too under until up us use used using very via was we were what when
where whether which while who why will with without would you your user users asks wants wanted want requested
requests request said says insisted insists prefers preferred decided approved told instructed required requires
require specified stated mentioned confirmed agreed rejected wishes ask requirement instruction goal task issue
session work working implement implemented described given assigned set arranged settled agreement
original discussed chosen demanded ordered declined refused forbade forbids
"""
_DE_STOPS = """
ab aber alle als also am an auch auf aus bei bis bitte da damit das dass dem den der des die dies diese dieser doch
durch
ein eine einem einen einer es für hat haben hatte ich ihr im in ist ja kann kein keine man mit mich mir muss nach
nicht noch nur ob oder ohne sein sich sie sind so soll sollen sollte über um und uns unter vom von vor war was weil
wenn werden wie wir wird wurde zu zum zur zuerst benutzer nutzer möchte wollte will sagte bat gebeten darum verlangt
gewünscht entschied bestätigt genehmigt benutzers nutzers nutzerin anwender anwenders wunsch wunsche wünsche wünschen
anforderung anweisung auftrag bitten einverständnis entscheidung freigabe genehmigung regel regeln verlangen verlangte
vorgabe vorgaben zustimmung laut gemäß wunschgemäß vereinbart besprochen abgesprochen gefordert angefordert angeordnet
aufgabe lautet lautete beauftragt beschlossen festgelegt freigegeben gebilligt vorgegeben vorgeschlagen zugestimmt
wurden worden gewählt wählte ausgewählt lehnte
"""
_FR_STOPS = """
à au aussi aux avec avoir c ce cette ces comme d dans de des du elle en est et être il ils j je l la le les leur mais
me n ne nous on ou où par pas plus pour qu que qui s sa sans se ses son sont sur tout tous toutes un une vous y a été
utilisateur demandé demande veut voulait souhaite dit préfère décidé utilisatrice demandée demandés demandées selon
après comme convenu accord choix consignes décision exigences instructions souhait souhaits volonté
approuvé validé exigé ont choisi tâche était
"""
_ES_STOPS = """
a al como con cuando de del desde donde el ella en entre es esta este está esto ha han hay la las lo los más me mi no
nos o para pero por porque que qué se ser si sin sobre son su sus también todo todos un una y ya usuario pidió pide
quiere quería solicitó dijo prefiere decidió usuaria pedido solicitado solicitada según petición solicitud acuerdo
decisión deseo acordó fue fueron sido elige eligió elegido tarea era acordado
"""
VERBS = {
    "en": frozenset(_EN_VERBS.split()),
    "de": frozenset(_DE_VERBS.split()),
    "fr": frozenset((_FR_VERBS + _FR_PARTICIPLES + _FR_ADJECTIVES).split()),
    "es": frozenset((_ES_VERBS + _ES_PARTICIPLES).split()),
}
"""What marks a claim of the user in each language, and says nothing of what was asked."""
STOP_WORDS = {
    "en": VERBS["en"].union(_EN_STOPS.split()),
    "de": VERBS["de"].union(_DE_STOPS.split()),
    "fr": VERBS["fr"].union(_FR_STOPS.split()),
    "es": VERBS["es"].union(_ES_STOPS.split()),
}
ALL_STOP_WORDS = frozenset[str]().union(*STOP_WORDS.values())
