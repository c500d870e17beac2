"""What can be said of compaction, in which layer, and for which model."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.config import (
    CompactionChoices,
    CompactionSettings,
    ModelSettings,
    Settings,
    Share,
    load_settings,
    size_tokens,
)
from acp_agent.errors import ConfigError

STRATEGIES = ("summary", "mask", "excerpts")
PROVIDERS = ("a", "c", "anthropic")


class Machine:
    """A user's file and a project's."""

    def __init__(self, root: Path) -> None:
        self.home, self.cwd = root / "home", root / "project"
        self.user_file = self.home / "config.yaml"
        self.project_file = self.cwd / ".acp-agent" / "config.yaml"
        self.user_file.parent.mkdir(parents=True)
        self.project_file.parent.mkdir(parents=True)

    def load(self, user: str = "", project: str = "") -> Settings:
        self.user_file.write_text(user)
        self.project_file.write_text(project)
        return load_settings({"ACP_AGENT_HOME": str(self.home)}, self.cwd, strategies=STRATEGIES, providers=PROVIDERS)

    def error(self, user: str = "", project: str = "") -> ConfigError:
        with pytest.raises(ConfigError) as caught:
            self.load(user, project)
        return caught.value


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


SHARES = st.floats(0.1, 0.95)
SIZES = st.integers(1_000, 1_000_000) | st.floats(0.02, 0.9).map(Share)
CHOICES = st.builds(
    CompactionChoices,
    auto=st.none() | st.booleans(),
    threshold=st.none() | SHARES,
    prepare=st.none() | st.just(False) | SHARES,
    wait=st.none() | st.booleans(),
    size=st.none() | SIZES,
    strategy=st.none() | st.sampled_from(STRATEGIES),
    model=st.none() | st.sampled_from(["a/b", "c/d"]),
)


@given(CHOICES, CHOICES, CHOICES)
def test_laying_layers_over_each_other_is_associative(
    top: CompactionChoices, middle: CompactionChoices, bottom: CompactionChoices
) -> None:
    assert top.over(middle).over(bottom) == top.over(middle.over(bottom))


@given(CHOICES)
def test_a_layer_that_says_nothing_or_the_same_changes_nothing(layer: CompactionChoices) -> None:
    nothing = CompactionChoices()
    assert layer.over(nothing) == nothing.over(layer) == layer.over(layer) == layer


@given(CHOICES, CHOICES)
def test_every_key_comes_from_the_topmost_layer_that_says_it(
    above: CompactionChoices, below: CompactionChoices
) -> None:
    merged = above.over(below)
    for field in fields(CompactionChoices):
        said = getattr(above, field.name)
        assert getattr(merged, field.name) == (getattr(below, field.name) if said is None else said)


@given(CHOICES)
def test_what_is_said_holds_and_defaults_fill_the_rest(said: CompactionChoices) -> None:
    settled = said.settled()
    assert settled.auto is (said.auto is not False)
    assert settled.threshold == (0.80 if said.threshold is None else said.threshold)
    assert settled.wait is (said.wait is True)
    assert (settled.size, settled.strategy, settled.model) == (said.size, said.strategy, said.model)
    if said.auto is False or said.prepare is False:
        assert settled.prepare is None
    elif said.prepare is not None:
        assert settled.prepare == said.prepare
    else:
        assert settled.prepare is not None
        assert 0 < settled.prepare < settled.threshold
        assert settled.prepare <= 0.70


def test_the_defaults_are_those_of_the_documentation(machine: Machine) -> None:
    assert machine.load().compaction_for("any/model") == CompactionSettings(
        auto=True, threshold=0.80, prepare=0.70, wait=False, size=None, strategy=None, model=None
    )


def test_a_lower_threshold_alone_is_no_mistake_and_takes_the_preparation_down_with_it(machine: Machine) -> None:
    assert machine.load("compaction: {threshold: 0.4}\n").compaction.prepare == pytest.approx(0.35)
    assert machine.load("compaction: {threshold: 0.95}\n").compaction.prepare == 0.70


@pytest.mark.parametrize("off", ["off", "false", "no"])
def test_the_preparation_can_be_switched_off(machine: Machine, off: str) -> None:
    assert machine.load(f"compaction: {{prepare: {off}}}\n").compaction.prepare is None


def test_nothing_is_prepared_for_a_model_that_is_not_compacted_by_itself(machine: Machine) -> None:
    loaded = machine.load("compaction: {prepare: 0.6}\nmodels: {a/b: {compaction: {auto: false}}}\n")
    assert (loaded.compaction_for("a/b").auto, loaded.compaction_for("a/b").prepare) == (False, None)
    assert loaded.compaction_for("c/d").prepare == 0.6


def test_a_models_own_section_is_laid_over_the_general_one_key_by_key(machine: Machine) -> None:
    loaded = machine.load("""\
compaction: {threshold: 0.7, prepare: off, strategy: mask, model: a/small, size: 40%, wait: true}
models:
  a/b:
    compaction: {threshold: 0.9, prepare: 0.85, strategy: summary, size: 30000, wait: false}
  a/silent: {context_window: 1000}
""")
    general = CompactionSettings(True, 0.7, None, True, Share(0.4), "mask", "a/small")
    assert loaded.compaction == general
    assert loaded.compaction_for("a/silent") == loaded.compaction_for("x/unknown") == general
    assert loaded.compaction_for("a/b") == CompactionSettings(True, 0.9, 0.85, False, 30_000, "summary", "a/small")


def test_the_project_overrides_the_user_key_by_key_and_the_users_word_on_a_model_overrides_both(
    machine: Machine,
) -> None:
    loaded = machine.load(
        "compaction: {auto: false, threshold: 0.9, strategy: mask}\nmodels: {a/b: {compaction: {threshold: 0.85}}}\n",
        "compaction: {threshold: 0.75, prepare: 0.5, strategy: excerpts, model: c/small}\n",
    )
    assert loaded.compaction_choices == CompactionChoices(False, 0.75, 0.5, None, None, "excerpts", "c/small")
    assert loaded.compaction_for("a/b").threshold == 0.85
    assert loaded.compaction_for("a/b").strategy == "excerpts"


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("20%", Share(0.2)),
        ("12.5 %", Share(0.125)),
        ("2%", Share(0.02)),
        ("90%", Share(0.9)),
        ("0.2", Share(0.2)),
        ("0.02", Share(0.02)),
        ("1000", 1_000),
        ("30_000", 30_000),
        ("1000000", 1_000_000),
        ("null", None),
    ],
)
def test_a_size_is_a_share_of_the_window_or_tokens_in_every_place(
    machine: Machine, written: str, size: int | Share | None
) -> None:
    section = f"compaction: {{size: {written}}}\n"
    own = f"models: {{a/b: {{{section.strip()}}}}}\n"
    found = (
        machine.load(section).compaction,
        machine.load("", section).compaction,
        machine.load(own).compaction_for("a/b"),
    )
    assert [each.size for each in found] == [size] * 3


@given(st.integers(1, 10_000_000), SIZES)
def test_a_size_becomes_tokens_and_by_default_a_fifth_of_the_window_and_64_000_at_most(
    window: int, size: int | Share
) -> None:
    assert size_tokens(size, window) == (int(size.of_window * window) if isinstance(size, Share) else size)
    assert size_tokens(None, window) == min(int(window * 0.2), 64_000)


KEYS: dict[str, st.SearchStrategy[Any]] = {
    "auto": st.booleans(),
    "threshold": st.floats(0.6, 0.95),
    "prepare": st.just(False) | st.floats(0.05, 0.55),
    "wait": st.booleans(),
    "size": st.integers(1_000, 1_000_000),
    "strategy": st.sampled_from(STRATEGIES),
    "model": st.sampled_from(["a/b", "c/d"]),
}
SECTION = st.fixed_dictionaries({}, optional=KEYS)


@settings(deadline=None, max_examples=40)
@given(SECTION, SECTION, SECTION)
def test_three_layers_in_files_are_the_same_three_layers_in_memory(
    tmp_path_factory: pytest.TempPathFactory, user: dict[str, Any], project: dict[str, Any], own: dict[str, Any]
) -> None:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    loaded = machine.load(
        yaml.safe_dump({"compaction": user, "models": {"a/b": {"compaction": own}}}),
        yaml.safe_dump({"compaction": project}),
    )
    general = CompactionChoices(**project).over(CompactionChoices(**user))
    assert loaded.compaction == general.settled()
    assert loaded.compaction_for("a/b") == CompactionChoices(**own).over(general).settled()
    assert loaded.models["a/b"] == ModelSettings(compaction=CompactionChoices(**own))


SIZE = "should be a share of the window from 2% to 90%, such as 20% or 0.2, or a number of tokens from 1,000"
WRONG_SIZES = (
    *("1.9%", "90.1%", "100%", "twenty%", "0.01", "0.91", "1.0", ".nan", ".inf"),
    *("0", "20", "999", "1000001", "-1", "30k", "true", "[5]", "'30000'"),
)


@pytest.mark.parametrize(
    ("section", "key", "words"),
    [
        ("threshold: 0.05", "threshold", "should be greater than or equal to 0.1, not 0.05"),
        ("threshold: 80", "threshold", "should be less than or equal to 0.95, not 80"),
        ("threshold: off", "threshold", "should be a valid number"),
        ("auto: 1", "auto", "should be a valid boolean"),
        ("prepare: 70", "prepare", "should be a share of the usable window from 0.05 to 0.95, or off, not 70"),
        ("prepare: 0", "prepare", "or off, not 0"),
        ("prepare: on", "prepare", "should be a share of the usable window"),
        ("prepare: early", "prepare", "should be a share of the usable window"),
        ("prepare: .nan", "prepare", "should be a share of the usable window"),
        ("prepare: [0.5]", "prepare", "should be a share of the usable window"),
        ("prepares: 0.5", "prepares", "unknown key; did you mean `prepare`?"),
        ("wait: 1", "wait", "should be a valid boolean"),
        *((f"size: {size}", "size", SIZE) for size in WRONG_SIZES),
        ("strategy: 5", "strategy", "should be a valid string"),
        ("strategy: two words", "strategy", "should be the name of a strategy"),
        ("strategy: sumary", "strategy", "there is no strategy 'sumary'; did you mean `summary`?"),
        ("strategy: zebra", "strategy", "known are: excerpts, mask, summary"),
        ("model: small", "model", "should be provider/model"),
        ("model: antropic/small", "model", "there is no provider 'antropic' ("),
        ("model: antropic/small", "model", "did you mean `anthropic`?"),
        ("model: zzz/small", "model", "known are: a, anthropic, c"),
        ("verify: mark", "verify", "unknown key; known here: auto, threshold, prepare, wait, size, strategy, model"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_key_in_every_place(
    machine: Machine, section: str, key: str, words: str
) -> None:
    general, own = f"compaction:\n  {section}\n", f"models:\n  a/b:\n    compaction:\n      {section}\n"
    for user, project, file, line, place in (
        (general, "", machine.user_file, 2, "compaction"),
        (own, "", machine.user_file, 4, "models.a/b.compaction"),
        ("", general, machine.project_file, 2, "compaction"),
    ):
        error = machine.error(user, project)
        assert (error.source, error.line, error.key) == (str(file), line, f"{place}.{key}")
        assert str(error).startswith(f"{file}:{line}: ")
        assert words in str(error)


def test_a_project_says_nothing_about_single_models(machine: Machine) -> None:
    error = machine.error("", "models: {a/b: {compaction: {threshold: 0.5}}}\n")
    assert (error.source, error.line, error.key) == (str(machine.project_file), 1, "models")


def test_a_caller_who_does_not_know_what_exists_gets_any_name(machine: Machine) -> None:
    machine.user_file.write_text("compaction: {strategy: zebra, model: zzz/small}\n")
    found = load_settings({"ACP_AGENT_HOME": str(machine.home)}).compaction
    assert (found.strategy, found.model) == ("zebra", "zzz/small")


def test_the_users_own_providers_may_write_summaries_in_every_place(machine: Machine) -> None:
    section = "compaction: {model: mine/small}"
    user = f"providers: {{mine: {{base_url: 'http://localhost:1/v1'}}}}\n{section}\nmodels: {{a/b: {{{section}}}}}\n"
    found = machine.load(user, f"{section}\n")
    assert found.compaction.model == found.compaction_for("a/b").model == "mine/small"


LOWER, HIGHER = "should be lower than `threshold`, which is", "should be higher than `prepare`, which is"


@pytest.mark.parametrize(
    ("user", "line", "key", "words"),
    [
        ("compaction:\n  prepare: 0.85\n", 2, "compaction.prepare", f"{LOWER} 0.8 by default; change"),
        (
            "compaction:\n  threshold: 0.5\n  prepare: 0.5\n",
            3,
            "compaction.prepare",
            f"{LOWER} 0.5 in line 2; change one of them, or write `prepare: off`",
        ),
        (
            "compaction:\n  prepare: 0.6\nmodels:\n  a/b:\n    compaction:\n      threshold: 0.5\n",
            6,
            "models.a/b.compaction.threshold",
            f"{HIGHER} 0.6 in line 2",
        ),
        (
            "models:\n  a/b:\n    compaction:\n      prepare: 0.9\n",
            4,
            "models.a/b.compaction.prepare",
            f"{LOWER} 0.8 by default",
        ),
        (
            "models: {a/b: {compaction: {prepare: 0.6}}}\ncompaction: {threshold: 0.5}\n",
            1,
            "models.a/b.compaction.prepare",
            f"{LOWER} 0.5 in line 2",
        ),
    ],
)
def test_a_preparation_that_would_come_after_the_compaction_is_a_mistake(
    machine: Machine, user: str, line: int, key: str, words: str
) -> None:
    error = machine.error(user)
    assert (error.source, error.line, error.key) == (str(machine.user_file), line, key)
    assert words in str(error)


@pytest.mark.parametrize(
    ("user", "project", "key", "words"),
    [
        ("prepare: 0.6", "threshold: 0.5", "compaction.threshold", f"{HIGHER} 0.6 in "),
        ("threshold: 0.5", "prepare: 0.6", "compaction.prepare", f"{LOWER} 0.5 in "),
        ("prepare: 0.6", "threshold: 0.5\n  prepare:", "compaction.threshold", f"{HIGHER} 0.6 in "),
    ],
)
def test_what_two_layers_say_together_is_blamed_on_the_upper_one_which_names_the_lower(
    machine: Machine, user: str, project: str, key: str, words: str
) -> None:
    error = machine.error(f"compaction:\n  {user}\n", f"compaction:\n  {project}\n")
    assert (error.source, error.line, error.key) == (str(machine.project_file), 2, key)
    assert f"{words}{machine.user_file}; " in str(error)


def test_a_project_that_contradicts_what_the_user_says_of_one_model_is_told_which(machine: Machine) -> None:
    error = machine.error("models: {a/b: {compaction: {threshold: 0.5}}}\n", "compaction: {prepare: 0.6}\n")
    assert (error.source, error.line, error.key) == (str(machine.project_file), 1, "compaction.prepare")
    assert f"{LOWER} 0.5 for a/b in {machine.user_file}" in str(error)


def test_a_lower_key_that_an_upper_layer_replaces_is_not_blamed(machine: Machine) -> None:
    error = machine.error("compaction: {prepare: 0.3}\n", "compaction:\n  threshold: 0.5\n  prepare: 0.5\n")
    assert (error.source, error.line, error.key) == (str(machine.project_file), 3, "compaction.prepare")
    error = machine.error(
        "models: {a/b: {compaction: {prepare: 0.7}}}\n", "compaction:\n  threshold: 0.6\n  prepare: 0.5\n"
    )
    assert (error.line, error.key) == (2, "compaction.threshold")
    assert f"{HIGHER} 0.7 for a/b in {machine.user_file}" in str(error)


def test_an_upper_layer_can_mend_what_would_not_fit_by_itself_and_the_off_switch_always_fits(
    machine: Machine,
) -> None:
    mended = machine.load("compaction: {prepare: 0.6}\n", "compaction: {threshold: 0.5, prepare: 0.4}\n")
    assert (mended.compaction.threshold, mended.compaction.prepare) == (0.5, 0.4)
    off = machine.load("compaction: {prepare: 0.6}\n", "compaction: {threshold: 0.5, prepare: off}\n")
    assert off.compaction.prepare is None
    error = machine.error("compaction: {auto: false, threshold: 0.5, prepare: 0.6}\n", "compaction: {auto: true}\n")
    assert (error.source, error.key) == (str(machine.user_file), "compaction.prepare")


@settings(deadline=None, max_examples=60)
@given(SECTION, SECTION, SECTION, st.data())
def test_whatever_the_layers_say_it_fits_together_or_the_error_names_a_key_that_is_there(
    tmp_path_factory: pytest.TempPathFactory,
    user: dict[str, Any],
    project: dict[str, Any],
    own: dict[str, Any],
    data: st.DataObject,
) -> None:
    free = {"threshold": st.floats(0.1, 0.95), "prepare": st.just(False) | st.floats(0.05, 0.95)}
    for section in (user, project, own):
        section.update(data.draw(st.fixed_dictionaries({}, optional=free)))
    machine = Machine(tmp_path_factory.mktemp("machine"))
    texts = (
        yaml.safe_dump({"compaction": user, "models": {"a/b": {"compaction": own}}}),
        yaml.safe_dump({"compaction": project}),
    )
    mistake: ConfigError | None = None
    try:
        loaded = machine.load(*texts)
    except ConfigError as error:
        mistake = error
    else:
        for model in ("a/b", "c/d"):
            settled = loaded.compaction_for(model)
            assert settled.prepare is None or settled.prepare < settled.threshold
    if mistake:
        text = texts[[str(machine.user_file), str(machine.project_file)].index(str(mistake.source))]
        key = str(mistake.key).rpartition(".")[2]
        assert f"{key}: " in text.splitlines()[(mistake.line or 0) - 1]
