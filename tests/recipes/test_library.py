"""Which recipes are found, which one wins, and what is said of the rest."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.recipes import Known, RecipeLibrary, builtin_recipes_dir
from acp_agent.recipes.folders import RecipeFolder
from acp_agent.recipes.library import MAX_TOGETHER, UNKNOWN
from acp_agent.recipes.template import check

HANDLERS = {"turn_end": ["swap_context"]}


class Folders:
    """The three folders that recipes come from."""

    def __init__(self, root: Path) -> None:
        self.builtin, self.user = root / "builtin", root / "user" / "recipes"
        self.project = root / "project" / ".acp-agent" / "recipes"
        for folder in (self.builtin, self.user, self.project):
            folder.mkdir(parents=True)

    def discover(self) -> RecipeLibrary:
        return RecipeLibrary.discover(self.builtin, self.user, self.project, HANDLERS)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


NAMES = st.sets(st.sampled_from(["a", "b", "c-1", "d_2"]))


@settings(deadline=None, max_examples=40)
@given(NAMES, NAMES, NAMES, NAMES)
def test_the_later_folder_wins_and_a_broken_file_takes_nothing_away(
    tmp_path_factory: pytest.TempPathFactory, builtin: set[str], user: set[str], project: set[str], broken: set[str]
) -> None:
    folders = Folders(tmp_path_factory.mktemp("folders"))
    for folder, names in ((folders.builtin, builtin), (folders.user, user), (folders.project, project - broken)):
        for name in names:
            (folder / f"{name}.md").write_text(f"from {folder.parent.name}")
    for name in broken:
        (folders.project / f"{name}.md").write_text("---\nzebra: 1\n---\nx")
    library = folders.discover()
    expected: dict[str, str] = dict.fromkeys(builtin, "builtin")
    expected |= dict.fromkeys(user, "user") | dict.fromkeys(project - broken, "project")
    assert {name: recipe.origin for name, recipe in library.recipes.items()} == expected
    assert list(library.recipes) == sorted(expected)
    assert [Path(error.source or "").stem for error in library.errors] == sorted(broken)


def test_an_error_names_file_line_and_key_and_the_other_recipes_load(folders: Folders) -> None:
    (folders.user / "good.md").write_text("x")
    (folders.user / "bad.md").write_text("---\ndescription: x\nhooks:\n  turn_end: {handler: burn}\n---\nx")
    library = folders.discover()
    assert list(library.recipes) == ["good"]
    [error] = library.errors
    assert (error.source, error.line) == (str(folders.user / "bad.md"), 4)
    assert str(error).startswith(f"{folders.user / 'bad.md'}:4: hooks.turn_end.handler: no handler 'burn'")


def test_a_template_that_cannot_be_rendered_is_an_error_and_the_recipe_before_it_stays(folders: Folders) -> None:
    (folders.user / "note.md").write_text("Note {{ instructions }}")
    (folders.project / "note.md").write_text("---\ndescription: x\n---\n\n{% set x = 1 %}")
    library = folders.discover()
    assert library.recipes["note"].origin == "user"
    [error] = library.errors
    assert str(error) == f"{folders.project / 'note.md'}:5: the template is wrong: recipes cannot use `{{% set %}}`"


def test_an_override_that_would_lose_its_hook_leaves_the_built_in_recipe_in_use(folders: Folders) -> None:
    (folders.builtin / "squash.md").write_text("---\nhooks:\n  turn_end: {handler: swap_context}\n---\nx")
    (folders.project / "squash.md").write_text("Tell me all.")
    (folders.user / "tools.md").write_text("---\nallowed_tools: [raed]\n---\nx")
    library = RecipeLibrary.discover(
        folders.builtin,
        folders.user,
        folders.project,
        HANDLERS,
        tools=("read",),
        required_hooks={"squash": ("turn_end", "swap_context")},
    )
    assert {name: recipe.origin for name, recipe in library.recipes.items()} == {"squash": "builtin"}
    tools, squash = library.errors
    assert (tools.source, tools.line) == (str(folders.user / "tools.md"), 2)
    assert "did you mean `read`?" in str(tools)
    assert squash.source == str(folders.project / "squash.md")
    assert "swap_context" in str(squash)


def test_files_that_cannot_be_recipes_are_errors_and_never_a_crash(folders: Folders, tmp_path: Path) -> None:
    (folders.user / "Shout.md").write_text("x")
    (folders.user / "two words.md").write_text("x")
    (folders.user / "latin.md").write_bytes("größe".encode("latin-1"))
    (folders.user / "picture.md").write_bytes(b"\x89PNG\0")
    (folders.user / "folder.md").mkdir()
    (folders.user / "gone.md").symlink_to(tmp_path / "nothing")
    (folders.user / "loop.md").symlink_to("loop.md")
    (folders.user / "open.md").write_text("---\nname: x\n")
    os.mkfifo(folders.user / "pipe.md")
    library = folders.discover()
    assert library.recipes == {}
    assert {Path(error.source or "").name: str(error).split(": ", 1)[1] for error in library.errors} == {
        "Shout.md": "a recipe's file is named with lower-case letters, digits, - and _ alone; rename it",
        "two words.md": "a recipe's file is named with lower-case letters, digits, - and _ alone; rename it",
        "latin.md": "is not UTF-8 text; save it with that encoding",
        "picture.md": "is no text",
        "folder.md": "cannot be read (Is a directory)",
        "gone.md": "is a link to a file that does not exist",
        "loop.md": "cannot be read (Too many levels of symbolic links)",
        "open.md": "the front matter that begins here has no closing ---",
        "pipe.md": "is not a regular file",
    }


def test_a_command_of_the_agents_own_cannot_be_taken_by_a_recipe(folders: Folders) -> None:
    (folders.project / "pin.md").write_text("Tell me secrets.")
    library = RecipeLibrary.discover(folders.builtin, None, folders.project, HANDLERS, reserved=["pin"])
    assert library.recipes == {}
    assert [str(error) for error in library.errors] == [
        f"{folders.project / 'pin.md'}: /pin is a command of the agent's own; rename the file"
    ]


def test_other_files_are_no_recipes_and_no_errors(folders: Folders) -> None:
    for name in ("README.md", "readme.md", "notes.txt", ".hidden.md", "note.md~"):
        (folders.user / name).write_text("x")
    assert folders.discover() == RecipeLibrary({})


def test_a_projects_link_may_not_lead_out_of_the_project_and_the_users_may(folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (folders.project.parents[1] / "shared").write_text("shared")
    (folders.user / "mine.md").symlink_to(tmp_path / "secret")
    (folders.project / "leak.md").symlink_to(tmp_path / "secret")
    (folders.project / "inside.md").symlink_to("../../shared")
    library = folders.discover()
    assert list(library.recipes) == ["inside", "mine"]
    assert [Path(error.source or "").name for error in library.errors] == ["leak.md"]
    assert "is a link that leads out of" in str(library.errors[0])


def test_a_projects_whole_folder_may_not_be_a_link_out_of_it_either(folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "leak.md").write_text("secret")
    folders.project.rmdir()
    folders.project.symlink_to(tmp_path / "elsewhere")
    library = folders.discover()
    assert library.recipes == {}
    assert len(library.errors) == 1


def test_missing_folders_are_nothing_and_a_file_in_their_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    library = RecipeLibrary.discover(tmp_path / "none", None, tmp_path / "none", HANDLERS)
    assert library == RecipeLibrary({})
    library = RecipeLibrary.discover(tmp_path / "none", tmp_path / "file", None, HANDLERS)
    assert [str(error) for error in library.errors] == [
        f"{tmp_path / 'file'}: cannot read this folder (Not a directory)"
    ]


def test_the_digest_tells_two_versions_apart(folders: Folders) -> None:
    (folders.user / "a.md").write_text("one")
    before = folders.discover().recipes["a"].digest
    assert folders.discover().recipes["a"].digest == before
    (folders.user / "a.md").write_text("two")
    assert folders.discover().recipes["a"].digest != before


def test_a_name_is_looked_up(folders: Folders) -> None:
    (folders.user / "a.md").write_text("one")
    library = folders.discover()
    assert library.get("a") is library.recipes["a"]
    assert library.get("b") is None


def test_discovery_works_in_a_worker_thread(folders: Folders) -> None:
    (folders.user / "a.md").write_text("one")
    found: list[RecipeLibrary] = []
    thread = threading.Thread(target=lambda: found.append(folders.discover()))
    thread.start()
    thread.join(30)
    assert [list(library.recipes) for library in found] == [["a"]]


def test_importing_the_room_loads_no_heavy_library() -> None:
    code = (
        "import sys, acp_agent.recipes;print([name for name in ('yaml', 'pydantic', 'jinja2') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert run.stdout.strip() == "[]"


def test_built_in_recipes_and_plain_texts_leave_jinja2_to_the_rendering(folders: Folders) -> None:
    (folders.user / "plain.md").write_text("Say {hello}.")
    code = (
        "import sys; from pathlib import Path; from acp_agent.recipes import RecipeLibrary, builtin_recipes_dir;"
        "handlers = {'turn_end': ['swap_context']};"
        "library = RecipeLibrary.discover(builtin_recipes_dir(), Path(sys.argv[1]), None, handlers);"
        "print('jinja2' in sys.modules, library.errors, 'plain' in library.recipes)"
    )
    argv = [sys.executable, "-c", code, str(folders.user)]
    run = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30)
    assert run.stdout.strip() == "False () True"


def test_every_built_in_recipe_loads() -> None:
    library = RecipeLibrary.discover(builtin_recipes_dir(), None, None, HANDLERS)
    assert library.errors == ()
    for recipe in library.recipes.values():
        check(recipe)
    assert set(library.recipes) == {path.stem for path in builtin_recipes_dir().glob("*.md")}
    assert "compact" in library.recipes


@pytest.mark.parametrize(
    "body", ["{% autoescape true %}x{% endautoescape %}", "{% if 1 %}{% autoescape x %}{% endautoescape %}{% endif %}"]
)
def test_a_template_whose_fault_has_no_line_takes_nothing_away_either(folders: Folders, body: str) -> None:
    (folders.user / "good.md").write_text("Good.")
    (folders.project / "bad.md").write_text(body)
    library = folders.discover()
    assert list(library.recipes) == ["good"]
    [error] = library.errors
    assert error.source == str(folders.project / "bad.md")


def test_all_that_a_project_brings_together_has_a_largest_size_and_what_the_user_has_none(folders: Folders) -> None:
    full = {f"a{number}": MAX_TOGETHER // 8 for number in range(8)}
    for folder, prefix in ((folders.user, "u"), (folders.project, "p")):
        for name, size in {**full, "b": 1, "c": 1}.items():
            (folder / f"{prefix}-{name}.md").write_text("x" * size)
    library = folders.discover()
    assert list(library.recipes) == [*(f"p-{name}" for name in full), *(f"u-{name}" for name in full), "u-b", "u-c"]
    assert [str(error) for error in library.errors] == [
        f"{folders.project}: has more than 1024 KiB; p-b and all behind it are left out"
    ]


def test_of_a_project_only_the_text_that_was_allowed_is_looked_into(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    claude = folders.project.parents[1] / ".claude" / "commands"
    claude.mkdir(parents=True)
    (folders.user / "note.md").write_text("The user's.")
    for name in ("note", "fine", "changed", "Shout", "pin"):
        (folders.project / f"{name}.md").write_text(f"{name} {{{{ instructions }}}}")
    for name in ("See It", "squash"):
        (claude / f"{name}.md").write_text("x")
    allowed = {
        folders.project / f"{name}.md": hashlib.sha256((folders.project / f"{name}.md").read_bytes()).hexdigest()
        for name in ("fine", "changed")
    }
    (folders.project / "changed.md").write_text("---\nzebra: 1\n---\n{% set x = 1 %}")
    library = RecipeLibrary.read(
        [
            RecipeFolder("project", claude, "claude"),
            RecipeFolder("user", folders.user),
            RecipeFolder("project", folders.project),
        ],
        Known({}, required_hooks={"squash": ("turn_end", "swap_context")}),
        ["pin"],
        allowed.get,
    )
    assert library.errors == ()
    assert {name: recipe.origin for name, recipe in library.recipes.items()} == {"fine": "project", "note": "user"}
    assert list(library.untrusted) == ["changed", "note", "see-it"]
    assert {(recipe.body, recipe.description) for recipe in library.untrusted.values()} == {("", UNKNOWN)}
    assert library.known["note"].origin == "user"
