"""In which language the user writes, so that the agent goes on in it when what the user wrote is gone.

Scripts that few languages share decide by themselves; for Latin and Cyrillic the small words of a language are counted.
Code, paths, addresses and identifiers do not count: they are English in every language. Where it is not clear nothing
is said, since a wrong language is worse than none. Knows no dialects and nothing of what the texts mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

from acp_agent.compaction.rules import prose

_SMALL_WORDS = {
    "English": "the and is are was it this that these of to in on for with you not be have has from what which there "
    "can should please when how why do does did we they it's i'm don't all also as at by if or but so my me your",
    "German": "der die das und ist sind war es ein eine einen einem den dem des im in zu zum zur auf für mit nicht "
    "wird werden hat haben ich du wir sie ihr auch noch nur wenn wie was warum bitte kannst aus bei von vom dass als "
    "aber oder so mal mir jetzt alle dann mach",
    "French": "le la les un une des du de et est sont dans sur pour avec ne pas que qui ce cette ces il elle je tu "
    "nous vous au aux par plus mais ou où comment pourquoi quand si être fait faire peux peut merci en mon ma ton "
    "c'est",
    "Spanish": "el la los las un una unos de del y es son en por para con no que se lo al este esta esto estos como "
    "cómo cuando pero más muy hay tiene puedes puede también yo tú mi porque qué ser está todos hacer favor",
    "Portuguese": "o a os as um uma de do da dos das e é são em no na nos nas por para com não que se ao este esta "
    "isto isso como quando mas mais muito você tem pode também eu meu minha porque ser está fazer favor",
    "Italian": "il lo la gli le un una di del della dei delle e è sono in nel nella per con non che si al alla questo "
    "questa come quando ma più molto anche io tu mi perché essere fare puoi può cosa favore i",
    "Dutch": "de het een en is zijn was van in op te voor met niet dat die dit deze ik je jij we wij maar ook nog als "
    "hoe waarom wat kan kun moet worden wordt naar uit bij aan er of om alle graag dan geen",
    "Polish": "i w z na do nie to jest są się że o po od dla jak ale co czy tak ten ta te tego tym przez przy już lub "
    "oraz tylko może proszę gdy kiedy dlaczego mi ja ze za",
    "Swedish": "och att det är en ett i på av för med som inte den till de jag du vi har kan när hur varför om men "
    "också från eller ska alla bara så var detta denna mig min",
    "Danish": "og at det er en et i på af for med som ikke den til de jeg du vi har kan når hvordan hvorfor om men "
    "også fra eller skal alle kun så var dette denne mig min hvad",
    "Norwegian": "og at det er en et i på av for med som ikke den til de jeg du vi har kan når hvordan hvorfor om men "
    "også fra eller skal alle bare så var dette denne meg min hva",
    "Romanian": "și este sunt nu să în cu pe care din pentru la un o de că ce mai acest această dar sau cum când după "
    "se fi are te rog",
    "Czech": "a je se na v že s z do ne to jsou by jak ale co pro už jen nebo když tento tato toto při po od který "
    "prosím můžeš proč není ve k",
    "Turkish": "ve bir bu da de için ile mi mı ne var yok çok daha ama gibi olarak olan değil nasıl neden lütfen her "
    "şu o ben sen biz ki kadar sonra",
    "Russian": "и в не на что это как с по для из от но же так у к за бы то все есть или если при когда почему надо "
    "нужно пожалуйста мне я ты мы он она только уже",
    "Ukrainian": "і в не на що це як з по для із від але же так у до за б то всі є або якщо при коли чому треба "
    "потрібно будь ласка мені я ти ми він вона тільки вже та",
    "Bulgarian": "и в не на че това как с по за от но да се ли е са при когато защо трябва моля ми аз ти ние той тя "
    "само вече ще към или ако има",
}
_SCRIPTS = (
    ("Korean", "\u1100-\u11ff\uac00-\ud7af"),
    ("Hebrew", "\u0590-\u05ff"),
    ("Greek", "\u0370-\u03ff\u1f00-\u1fff"),
    ("Hindi", "\u0900-\u097f"),
    ("Thai", "\u0e00-\u0e7f"),
)
_SCRIPT = {name: re.compile(f"[{characters}]") for name, characters in _SCRIPTS}
_KANA = re.compile("[\u3040-\u30ff]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_ARABIC = re.compile("[\u0600-\u06ff]")
_PERSIAN = re.compile("[پچژگ]")
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
# Each alternative begins at white space or a backtick, so that no long stretch is tried from every place in it.
_CODE = re.compile(r"`[^`\n]{0,200}`|(?<!\S)\S*[\\/_@<>{}=$0-9]\S*|(?<!\S)\S*\w[.:(]\w\S*|(?<!\S)\S*[a-z][A-Z]\S*")

NEWEST_TEXTS = 20
_MOST_CHARACTERS = 4_000
"""Of one text that are looked at; a language shows sooner."""
_LEAST_WEIGHT = 2.0
"""Of small words, where one that no other language has weighs 1: two such words, or more that are shared."""
_LEAST_LEAD = 1.4
_LEAST_SHARE = 0.12
"""Of all words; in prose every third is a small one."""
_LOUDEST = 20.0
"""What one text can weigh, so that a long paste does not drown what the user types."""
_SCRIPT_SHARE = 0.25
"""Of all letters that another script than Latin needs; names of things are written in Latin everywhere."""


@cache
def _weights() -> dict[str, dict[str, float]]:
    """For each small word the languages that have it, each with the word's weight."""
    languages: dict[str, list[str]] = {}
    for name, words in _SMALL_WORDS.items():
        for word in dict.fromkeys(words.split()):
            languages.setdefault(word, []).append(name)
    return {word: dict.fromkeys(names, 1 / len(names)) for word, names in languages.items()}


def language_of(texts: Sequence[str]) -> str:
    """The language in which these texts are written, as its name in English; empty where that is not clear.

    :param texts: what the user wrote, whole messages, oldest first; the newest `NEWEST_TEXTS` count.
    """
    plain = [_own_words(text) for text in texts[-NEWEST_TEXTS:]]
    return _by_script("".join(plain)) or _by_small_words(plain)


def _own_words(text: str) -> str:
    own = "\n".join(prose(text[: 4 * _MOST_CHARACTERS]))
    return _CODE.sub(" ", own[:_MOST_CHARACTERS])


def _by_script(text: str) -> str:
    letters = len(_LETTER.findall(text))
    enough = max(2, _SCRIPT_SHARE * letters)
    kana, han, arabic = (len(script.findall(text)) for script in (_KANA, _HAN, _ARABIC))
    if kana + han >= enough:
        return "Japanese" if kana * 10 >= han else "Chinese"
    if arabic >= enough:
        return "Persian" if len(_PERSIAN.findall(text)) * 50 >= arabic else "Arabic"
    return next((name for name, script in _SCRIPT.items() if len(script.findall(text)) >= enough), "")


def _by_small_words(texts: Iterable[str]) -> str:
    total: dict[str, float] = {}
    words = 0.0
    for text in texts:
        found = [word.replace("’", "'") for word in _WORD.findall(text.casefold())]
        weights: dict[str, float] = {}
        for word in found:
            for name, weight in _weights().get(word, {}).items():
                weights[name] = weights.get(name, 0) + weight
        loudness = min(1.0, _LOUDEST / (sum(weights.values()) or 1))
        words += len(found) * loudness
        for name, weight in weights.items():
            total[name] = total.get(name, 0) + weight * loudness
    first, second = [*sorted(total.items(), key=lambda item: -item[1]), ("", 0.0), ("", 0.0)][:2]
    hits = first[1] / max(1, words)
    clear = first[1] >= _LEAST_WEIGHT and first[1] >= _LEAST_LEAD * second[1] and hits >= _LEAST_SHARE
    return first[0] if clear else ""
