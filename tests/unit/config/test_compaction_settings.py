"""Compaction settings in the layers and for single models, and the keys of earlier
versions.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.config import load_settings
from acp_agent.config.forms import Share
from acp_agent.config.settings import CompactionSettings, MergedCompaction
from support.configuration import Machine

SIZES = st.integers(1_000, 1_000_000) | st.floats(0.02, 0.9).map(Share)
KEYS: dict[str, st.SearchStrategy[Any]] = {
    "auto": st.booleans(),
    "threshold": st.floats(0.1, 0.95),
    "prepare": st.just(False) | st.floats(0.05, 0.95),
    "wait": st.booleans(),
    "size": SIZES,
    "strategy": st.sampled_from(Machine.STRATEGIES),
    "model": st.sampled_from(["a/b", "c/d"]),
    "idle": st.sampled_from(["auto", "off"]),
}
CHOICES = st.builds(
    CompactionSettings, **{key: st.none() | value for key, value in KEYS.items()}
)


@given(CHOICES, CHOICES, CHOICES)
def test_every_key_comes_from_the_topmost_layer_that_sets_it(
    top: CompactionSettings, middle: CompactionSettings, bottom: CompactionSettings
) -> None:
    merged = top.over(middle).over(bottom)
    nothing = CompactionSettings()
    assert merged == top.over(middle.over(bottom))
    assert top.over(nothing) == nothing.over(top) == top.over(top) == top
    for field in fields(CompactionSettings):
        said = [getattr(layer, field.name) for layer in (top, middle, bottom)]
        assert getattr(merged, field.name) == next(
            (value for value in said if value is not None), None
        )


@given(CHOICES)
def test_defaults_are_used_for_keys_that_are_not_set(said: CompactionSettings) -> None:
    settled = said.settled()
    assert settled.auto is (said.auto is not False)
    assert settled.threshold == (0.80 if said.threshold is None else said.threshold)
    assert settled.wait is (said.wait is True)
    assert (settled.size, settled.strategy, settled.model) == (
        said.size,
        said.strategy,
        said.model,
    )
    assert settled.idle == ("off" if said.auto is False else said.idle or "auto")
    if said.auto is False or said.prepare is False:
        assert settled.prepare is None
    elif said.prepare is not None and said.prepare < settled.threshold:
        assert settled.prepare == said.prepare
    else:
        assert settled.prepare is not None
        assert 0 < settled.prepare < settled.threshold
        assert settled.prepare <= max(0.70, 0.875 * settled.threshold)


GENERAL = "compaction: {threshold: 0.7, prepare: off, strategy: mask, model: a/small, size: 40%, wait: true}\n"
OWN = "models: {a/b: {compaction: {threshold: 0.9, prepare: 0.85, strategy: summary, size: 3000, wait: false}}}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", MergedCompaction(True, 0.80, 0.70, False, None, None, None)),
        (
            "compaction: {threshold: 0.5}\n",
            MergedCompaction(threshold=0.5, prepare=0.4375),
        ),
        (
            "compaction: {threshold: 0.95}\n",
            MergedCompaction(threshold=0.95, prepare=0.70),
        ),
        (
            "compaction: {threshold: 60%, prepare: 12.5 %}\n",
            MergedCompaction(threshold=0.6, prepare=0.125),
        ),
        *(
            (f"compaction: {{prepare: {off}}}\n", MergedCompaction(prepare=None))
            for off in ("off", "false")
        ),
        (
            "models: {a/b: {compaction: {auto: false}}}\n",
            MergedCompaction(auto=False, prepare=None, idle="off"),
        ),
        (
            "compaction: {idle: off}\nmodels: {a/b: {compaction: {idle: auto}}}\n",
            MergedCompaction(),
        ),
        ("compaction: {idle: off}\n", MergedCompaction(idle="off")),
        (
            GENERAL,
            MergedCompaction(True, 0.7, None, True, Share(0.4), "mask", "a/small"),
        ),
        (
            GENERAL + OWN,
            MergedCompaction(True, 0.9, 0.85, False, 3_000, "summary", "a/small"),
        ),
    ],
)
def test_a_model_s_section_overrides_the_general_one_and_the_defaults(
    machine: Machine, text: str, expected: MergedCompaction
) -> None:
    assert machine.load(text).compaction_for("a/b") == expected


@pytest.mark.parametrize(
    ("said", "size"),
    [
        ("20%", Share(0.2)),
        ("12.5 %", Share(0.125)),
        ("2%", Share(0.02)),
        ("90%", Share(0.9)),
        ("0.02", Share(0.02)),
        ("1000", 1_000),
        ("1000000", 1_000_000),
        ("null", None),
    ],
)
def test_a_size_is_a_share_of_the_window_or_a_number_of_tokens(
    machine: Machine, said: str, size: int | Share | None
) -> None:
    assert machine.load(f"compaction: {{size: {said}}}\n").compaction.size == size


THRESHOLD = "should be a share of the usable window from 10% to 95%, such as 80% or 0.8"
SIZE = "should be a share of the window from 2% to 90%, such as 20% or 0.2, or a number of tokens from 1,000"
WRONG_SIZES = (
    *("1.9%", "90.1%", "twenty%", "0.01", "0.91", ".nan"),
    *("999", "1000001", "30k", "true", "[5]", "'30000'"),
)


@pytest.mark.parametrize(
    ("section", "key", "words"),
    [
        *(
            (f"threshold: {value}", "threshold", THRESHOLD)
            for value in ("0.05", "9%", "95.1%", "80", "high", ".nan")
        ),
        ("auto: 1", "auto", "should be a valid boolean"),
        (
            "prepare: 70",
            "prepare",
            "from 5% to 95%, such as 70% or 0.7, or off, not 70",
        ),
        ("idle: on", "idle", "'auto' or 'off'"),
        ("prepare: on", "prepare", "should be a share of the usable window"),
        *((f"size: {size}", "size", SIZE) for size in WRONG_SIZES),
        ("strategy: two words", "strategy", "should be the name of a strategy"),
        (
            "strategy: sumary",
            "strategy",
            "there is no strategy 'sumary'; did you mean `summary`?",
        ),
        ("strategy: zebra", "strategy", "use one of: excerpts, mask, summary"),
        ("model: small", "model", "should be provider/model"),
        ("model: antropic/small", "model", "did you mean `anthropic`?"),
        (
            "verify: mark",
            "verify",
            "unknown key; use one of: auto, idle, model, prepare, size, strategy, threshold, wait",
        ),
    ],
)
def test_a_mistake_in_any_compaction_section_is_named_with_file_line_and_key(
    machine: Machine, section: str, key: str, words: str
) -> None:
    general = f"compaction:\n  {section}\n"
    own = f"models:\n  a/b:\n    compaction:\n      {section}\n"
    for user, project, file, line, place in (
        (general, "", machine.user_file, 2, "compaction"),
        (own, "", machine.user_file, 4, "models.a/b.compaction"),
        ("", general, machine.project_file, 2, "compaction"),
    ):
        if project and key == "verify":
            continue  # the key is ignored in a project's file
        error = machine.error(user, project)
        assert (error.source, error.line, error.key) == (
            str(file),
            line,
            f"{place}.{key}",
        )
        assert words in str(error)


def test_the_user_s_own_providers_can_write_summaries(
    machine: Machine,
) -> None:
    section = "compaction: {model: mine/small}"
    user = f"providers: {{mine: {{base_url: 'http://localhost:1/v1'}}}}\n{section}\nmodels: {{a/b: {{{section}}}}}\n"
    found = machine.load(user, f"{section}\n")
    assert found.compaction.model == found.compaction_for("a/b").model == "mine/small"
    machine.user_file.write_text("compaction: {strategy: zebra, model: zzz/small}\n")
    found = load_settings(machine.env).compaction
    assert (found.strategy, found.model) == ("zebra", "zzz/small")


@pytest.mark.parametrize("value", ["0.5", "null", "{a: 1}"])
def test_a_file_with_old_keys_and_strategies_gets_a_single_notice(
    machine: Machine, value: str
) -> None:
    text = f"""\
compaction:
  target: {value}
  threshold: 0.7
  strategy: ledger
models:
  a/b:
    compaction: {{tail: {value}, ledger: 1, requests: 1, summary: 1, strategy: truncate, size: 30%}}
"""
    found = machine.load(text, "compaction: {strategy: truncate}\n")
    assert found.compaction == CompactionSettings(threshold=0.7, strategy="excerpts")
    assert found.compaction_for("a/b").strategy == "excerpts"
    user, project = found.notices
    assert user.startswith(
        f"{machine.user_file}: `compaction.target` (line 2) is no longer used; set `size` instead; "
    )
    assert (
        "`models.a/b.compaction.tail` (line 7) is no longer used; set `size` instead; "
        in user
    )
    assert (
        project
        == f"{machine.project_file}: `compaction.strategy: truncate` (line 1) is now called `excerpts`."
    )
    assert machine.load("compaction: {size: 20%, strategy: mask}\n").notices == ()


@pytest.mark.parametrize(
    ("text", "line", "key", "words"),
    [
        (
            "compaction:\n  target: 0.5\n  targets: 0.5\n",
            3,
            "compaction.targets",
            "unknown key",
        ),
        (
            "compaction:\n  target: 0.5\n  size: 5\n",
            3,
            "compaction.size",
            "should be a share of the window",
        ),
        (
            "models:\n  - compaction: {target: 0.5}\n",
            1,
            "models",
            "should be a mapping: `key: value` lines",
        ),
        (
            "compaction:\n  strategy: chunked\n",
            2,
            "compaction.strategy",
            "there is no strategy 'chunked'",
        ),
    ],
)
def test_old_keys_hide_no_mistake(
    machine: Machine, text: str, line: int, key: str, words: str
) -> None:
    error = machine.error(text)
    assert (error.line, error.key) == (line, key)
    assert words in str(error)
