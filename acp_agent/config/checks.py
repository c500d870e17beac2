"""Mistakes that no single key shows: what one file says, seen beside the other layers and beside what exists.

Everything is checked after a file was laid over the ones below it, so what is wrong then is wrong because of that file,
and one of its keys can be named. Knows neither files nor pydantic.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import cast

from acp_agent.config.document import Document, DocumentError, Place, did_you_mean, dotted
from acp_agent.config.settings import CompactionChoices, Settings
from acp_agent.frozen import frozen


@frozen
class Known:
    """What exists beside the configuration; None where that is not known, and any will do.

    :ivar strategies: names of the compaction strategies.
    :ivar providers: names of the providers that need no configuration.
    """

    strategies: Collection[str] | None = None
    providers: Collection[str] | None = None


def check_compaction(document: Document, settings: Settings, known: Known, user_file: Path) -> None:
    """Refuse strategies that do not exist, models of providers that do not, and a `prepare` that is not lower than its
    `threshold`.

    :param document: the file, which has been validated by itself.
    :param settings: this file's layer and all below it.
    :param user_file: where the layer below a project's file is.
    :raises DocumentError: with the line and the key.
    """
    sections: list[Place] = [("compaction",), *(("models", model, "compaction") for model in settings.models)]
    for section in sections:
        place = (*section, "strategy")
        name = _said(document, place)
        if isinstance(name, str) and known.strategies is not None and name not in known.strategies:
            message = f"there is no strategy {name!r}; {did_you_mean(name, known.strategies)}"
            raise DocumentError(message, document.lines[place], dotted(place))
        place = (*section, "model")
        name = _said(document, place)
        if isinstance(name, str) and known.providers is not None:
            wrong = unknown_provider(name, {*known.providers, *settings.providers})
            if wrong:
                raise DocumentError(wrong, document.lines[place], dotted(place))
    for model in (None, *settings.models):
        _check_prepare(document, settings, model, user_file)


def unknown_provider(model: str, providers: Collection[str]) -> str:
    """What to tell somebody whose model's provider does not exist; empty where it does.

    :param model: `provider/model`.
    :param providers: names that exist.
    """
    name = model.partition("/")[0]
    if name in providers:
        return ""
    others = "others go under `providers` in config.yaml"
    return f"there is no provider {name!r} ({others}); {did_you_mean(name, providers)}"


def _check_prepare(document: Document, settings: Settings, model: str | None, user_file: Path) -> None:
    layers: list[tuple[Place, CompactionChoices]] = [(("compaction",), settings.compaction_choices)]
    if model is not None:
        layers.insert(0, (("models", model, "compaction"), settings.models[model].compaction))
    choices = reduce(lambda above, below: above.over(below), (choices for _, choices in layers))
    # Whether it is used now: a project may switch `auto` on, and should not be blamed for the user's two numbers.
    found = replace(choices, auto=True).settled()
    if found.prepare is None or found.prepare < found.threshold:
        return
    prepare = _source(layers, "prepare")
    threshold = _source(layers, "threshold")
    here = [place for place in (prepare, threshold) if place and _said(document, place) is not None]
    blamed = max(here, key=len)  # a model's own section before the general one, else `prepare`
    relation, other, share, place = (
        ("lower", "threshold", found.threshold, threshold)
        if blamed == prepare
        else ("higher", "prepare", found.prepare, prepare)
    )
    where = "by default" if place is None else f"in {user_file}"
    if place in here:
        where = f"in line {document.lines[place]}"
    whose = f" for {model}" if model is not None and model not in blamed else ""
    raise DocumentError(
        f"should be {relation} than `{other}`, which is {share:g}{whose} {where}; change one of them, or write "
        "`prepare: off`",
        document.lines[blamed],
        dotted(blamed),
    )


def _source(layers: list[tuple[Place, CompactionChoices]], key: str) -> Place | None:
    """The key that decides, of layers from the topmost down; None where none says anything."""
    return next(((*section, key) for section, choices in layers if getattr(choices, key) is not None), None)


def _said(document: Document, place: Place) -> object:
    """What a document says at a place; None where it says nothing or null."""
    value: object = document.data
    for key in place:
        value = cast(Mapping[object, object], value).get(key) if isinstance(value, Mapping) else None
    return value
