"""Which recipes are found in which folder, which one wins, what is said of the rest,
and how a change is noticed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.hooks.handlers import known_handlers
from acp_agent.recipes.discovery import (
    MAX_FILES,
    UNTRUSTED,
    RecipeFolder,
    RecipeLibrary,
    builtin_recipes_dir,
    listing,
    signature,
)
from acp_agent.recipes.model import Known
from acp_agent.recipes.template import check

KNOWN = Known(known_handlers(), ("read",), ("squash",), lambda: ("mask",))
SWAP = "hooks:\n  turn_end: {handler: swap_context}\n"


def write(folder: Path, *names: str, **texts: str) -> None:
    for name, text in {
        **dict.fromkeys(names, "x"),
        **{f"{name}.md": text for name, text in texts.items()},
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class Folders:
    """The three folders that recipes come from."""

    def __init__(self, root: Path) -> None:
        self.builtin = root / "builtin"
        self.user = root / "user" / "recipes"
        self.project = root / "project" / ".acp-agent" / "recipes"
        for folder in (self.builtin, self.user, self.project):
            folder.mkdir(parents=True)

    def library(self) -> RecipeLibrary:
        folders = [
            RecipeFolder("builtin", self.builtin),
            RecipeFolder("user", self.user),
        ]
        return RecipeLibrary.read(
            [*folders, RecipeFolder("project", self.project)], KNOWN, ["pin"]
        )

    def errors(self) -> dict[str, str]:
        """The errors by the names of the files."""
        return {
            Path(error.source or "").name: str(error) for error in self.library().errors
        }


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


NAMES = st.sets(st.sampled_from(["a", "b", "c-1", "d_2"]))


@given(NAMES, NAMES, NAMES, NAMES)
def test_the_later_folder_wins_and_a_broken_file_takes_nothing_away(
    tmp_path_factory: pytest.TempPathFactory,
    builtin: set[str],
    user: set[str],
    project: set[str],
    broken: set[str],
) -> None:
    folders = Folders(tmp_path_factory.mktemp("folders"))
    for folder, names in (
        (folders.builtin, builtin),
        (folders.user, user),
        (folders.project, project - broken),
    ):
        write(folder, *(f"{name}.md" for name in names))
    write(folders.project, **dict.fromkeys(broken, "---\nzebra: 1\n---\nx"))
    library = folders.library()
    expected: dict[str, str] = dict.fromkeys(builtin, "builtin")
    expected |= dict.fromkeys(user, "user") | dict.fromkeys(project - broken, "project")
    assert {name: recipe.origin for name, recipe in library.recipes.items()} == expected
    assert list(library.recipes) == sorted(expected)
    assert [Path(error.source or "").stem for error in library.errors] == sorted(broken)


def test_mistakes_name_file_line_and_key_and_the_other_recipes_load(
    folders: Folders,
) -> None:
    write(folders.builtin, squash=f"---\n{SWAP}---\nx")
    write(
        folders.user,
        good="x",
        note="Note {{ instructions }}",
        old=f"---\n{SWAP}compaction: {{tail: 5}}\n---\nx",
        bad="---\ndescription: x\nhooks:\n  turn_end: {handler: burn}\n---\nx",
        maks=f"---\n{SWAP}compaction:\n  strategy: maks\n---\nx",
    )
    write(
        folders.project,
        note="---\ndescription: x\n---\n\n{% set x = 1 %}",
        squash="Tell me all.",
        pin="Mine.",
    )
    library = folders.library()
    user = folders.user
    project = folders.project
    assert {name: recipe.origin for name, recipe in library.recipes.items()} == {
        **dict.fromkeys(("good", "note", "old"), "user"),
        "squash": "builtin",
    }
    [notice] = library.notices
    assert notice.startswith(
        f"{user / 'old.md'}: `compaction.tail` (line 4) is no longer used"
    )
    bad, maks, note, pin, squash = map(str, library.errors)
    assert bad.startswith(
        f"{user / 'bad.md'}:4: hooks.turn_end.handler: no handler 'burn'"
    )
    assert maks.startswith(
        f"{user / 'maks.md'}:5: compaction.strategy: there is no strategy 'maks'; did you mean"
    )
    assert (
        note
        == f"{project / 'note.md'}:5: the template is wrong: recipes cannot use `{{% set %}}`"
    )
    assert (
        pin
        == f"{project / 'pin.md'}: /pin is a command of the agent's own; rename the file"
    )
    assert squash.startswith(
        f"{project / 'squash.md'}:1: hooks: a recipe named `squash` must have"
    )


def test_files_that_cannot_be_recipes_are_errors_and_never_a_crash(
    folders: Folders, tmp_path: Path
) -> None:
    write(folders.user, "Shout.md", "two words.md", "Team/x.md", open="---\nname: x\n")
    (folders.user / "latin.md").write_bytes("größe".encode("latin-1"))
    (folders.user / "picture.md").write_bytes(b"\x89PNG\0")
    (folders.user / "gone.md").symlink_to(tmp_path / "nothing")
    (folders.user / "loop.md").symlink_to("loop.md")
    os.mkfifo(folders.user / "pipe.md")
    named = "a recipe's file and its folders are named with lower-case letters, digits, - and _ alone; rename it"
    assert folders.library().recipes == {}
    assert {
        name: error.split(": ", 1)[1] for name, error in folders.errors().items()
    } == {
        "Shout.md": named,
        "two words.md": named,
        "x.md": named,
        "latin.md": "is not UTF-8 text; save it with that encoding",
        "picture.md": "is not a text file",
        "gone.md": "is a link to a file that does not exist",
        "loop.md": "cannot be read (Too many levels of symbolic links)",
        "open.md": "the front matter that begins here has no closing ---",
        "pipe.md": "is not a regular file",
    }


def test_files_are_named_by_their_path_and_hidden_ones_and_readmes_are_none(
    folders: Folders,
) -> None:
    write(
        folders.user,
        "a.md",
        "b/c.md",
        "b/d/e.md",
        "b/README.md",
        ".git/x.md",
        "b/.x.md",
        "b/notes.txt",
        "w.mdx",
    )
    library = folders.library()
    assert (list(library.recipes), library.errors) == (["a", "b/c", "b/d/e"], ())
    assert library.get("b:c") is library.get("b/c") is library.recipes["b/c"]
    assert (library.recipes["b/c"].command, library.get("zebra")) == ("b:c", None)


def test_links_to_folders_are_named_and_not_followed(
    folders: Folders, tmp_path: Path
) -> None:
    write(folders.user, "a/x.md", "1/2/3/4/ok.md", "1/2/3/4/5/deep.md", "README.md")
    write(tmp_path / "elsewhere", "team.md")
    (folders.user / "a" / "again").symlink_to("..")
    (folders.user / "team").symlink_to(tmp_path / "elsewhere")
    assert list(folders.library().recipes) == ["1/2/3/4/ok", "a/x"]
    team, deep, again = map(str, folders.library().errors)
    assert (team, again) == (
        f"{folders.user / 'team'}: is a link to a folder, which is not followed; put a copy here",
        f"{folders.user / 'a' / 'again'}: is a link to a folder, which is not followed; put a copy here",
    )
    assert deep.startswith(f"{folders.user / '1/2/3/4/5'}: is more than 4 folders deep")


def test_a_projects_files_may_not_be_links_out_of_it_and_the_users_may(
    folders: Folders, tmp_path: Path
) -> None:
    write(tmp_path / "elsewhere", "secret.md")
    (folders.project.parents[1] / "shared").write_text("shared")
    for folder in (folders.user, folders.project):
        (folder / "mine.md").symlink_to(tmp_path / "elsewhere" / "secret.md")
    (folders.project / "inside.md").symlink_to("../../shared")
    library = folders.library()
    assert {name: recipe.origin for name, recipe in library.recipes.items()} == {
        "inside": "project",
        "mine": "user",
    }
    assert [Path(error.source or "").name for error in library.errors] == ["mine.md"]
    assert all("is a link to a file outside" in str(error) for error in library.errors)


def test_very_many_files_are_used_in_part(tmp_path: Path) -> None:
    write(tmp_path / "many", *(f"{number:04}.md" for number in range(MAX_FILES + 5)))
    files, unread = listing(RecipeFolder("user", tmp_path / "many"))
    assert len(files) == MAX_FILES
    assert unread == (
        (tmp_path / "many", "has more than 500 files, and the others are left out"),
    )


def test_missing_folders_are_nothing_and_a_file_in_their_place_is_an_error(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    assert RecipeLibrary.read(
        [RecipeFolder("project", tmp_path / "a" / "b" / "none")], KNOWN
    ) == RecipeLibrary({})
    [error] = RecipeLibrary.read(
        [RecipeFolder("user", tmp_path / "file")], KNOWN
    ).errors
    assert (
        str(error) == f"{tmp_path / 'file'}: cannot read this folder (Not a directory)"
    )


def test_of_a_project_only_the_text_that_was_trusted_is_used(folders: Folders) -> None:
    claude = folders.project.parents[1] / ".claude" / "commands"
    write(folders.user, note="The user's.")
    names = ("note", "fine", "changed", "Shout", "pin")
    write(folders.project, **{name: f"{name} {{{{ instructions }}}}" for name in names})
    write(claude, "See It.md", "squash.md")
    trusted = {
        folders.project / f"{name}.md": hashlib.sha256(
            (folders.project / f"{name}.md").read_bytes()
        ).hexdigest()
        for name in ("fine", "changed")
    }
    write(folders.project, changed="---\nzebra: 1\n---\n{% set x = 1 %}")
    places = [
        RecipeFolder("project", claude, "claude"),
        RecipeFolder("user", folders.user),
    ]
    places.append(RecipeFolder("project", folders.project))
    library = RecipeLibrary.read(places, KNOWN, ["pin"], trusted.get)
    assert {name: recipe.origin for name, recipe in library.recipes.items()} == {
        "fine": "project",
        "note": "user",
    }
    assert list(library.untrusted) == ["changed", "note", "see-it"]
    assert {
        (recipe.body, recipe.description) for recipe in library.untrusted.values()
    } == {("", UNTRUSTED)}
    assert library.known["note"].origin == "user"


def test_every_built_in_recipe_loads() -> None:
    library = RecipeLibrary.read(
        [RecipeFolder("builtin", builtin_recipes_dir())], Known(KNOWN.handlers)
    )
    assert library.errors == ()
    for recipe in library.recipes.values():
        check(recipe)
    assert set(library.recipes) == {
        path.stem for path in builtin_recipes_dir().glob("*.md")
    }


@pytest.mark.process
def test_built_in_recipes_and_plain_texts_leave_the_heavy_libraries_to_those_who_need_them(
    folders: Folders,
) -> None:
    write(folders.user, plain="Say {hello}.")
    code = (
        "import sys; from pathlib import Path; from acp_agent.recipes.model import Known;"
        "from acp_agent.recipes.discovery import RecipeFolder, RecipeLibrary, builtin_recipes_dir;"
        "print([name for name in ('yaml', 'pydantic', 'jinja2') if name in sys.modules]);"
        "from acp_agent.hooks.handlers import known_handlers;"
        "folders = [RecipeFolder('builtin', builtin_recipes_dir()), RecipeFolder('user', Path(sys.argv[1]))];"
        "library = RecipeLibrary.read(folders, Known(known_handlers()));"
        "print('jinja2' in sys.modules, library.errors, 'plain' in library.recipes)"
    )
    argv = [sys.executable, "-c", code, str(folders.user)]
    run = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30)
    assert run.stdout.splitlines() == ["[]", "False () True"]


FILES = st.dictionaries(
    st.sampled_from(["a.md", "b.md", "c/d.md", "c/e/f.md"]),
    st.text("xy", min_size=1, max_size=3),
)


@given(FILES, FILES)
def test_the_signature_is_another_one_exactly_where_files_are(
    tmp_path_factory: pytest.TempPathFactory,
    before: dict[str, str],
    after: dict[str, str],
) -> None:
    root = tmp_path_factory.mktemp("root")
    folders = [RecipeFolder("user", root), RecipeFolder("user", root / "none")]
    for name, text in before.items():
        write(root, name)
        (root / name).write_text(text)
    first = signature(folders)
    assert signature(folders) == first
    for name in before.keys() - after.keys():
        (root / name).unlink()
    for name, text in after.items():
        if before.get(name) != text:
            write(root, name)
            (root / name).write_text(text)
            os.utime(root / name, ns=(1, 1))  # whatever the file system's clock
    assert (signature(folders) == first) == (before == after)


def test_a_change_that_keeps_time_and_size_and_one_of_a_broken_folder_are_changes(
    tmp_path: Path,
) -> None:
    folder = RecipeFolder("user", tmp_path / "recipes")
    seen = [signature([folder])]
    folder.path.write_text("")
    seen.append(signature([folder]))
    folder.path.unlink()
    write(folder.path, a="one")
    seen.append(signature([folder]))
    path = folder.path / "a.md"
    before = (folder.path / "a.md").stat()
    # The file system's clock may be coarse.
    while path.stat().st_ctime_ns == before.st_ctime_ns:
        path.write_text("two")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    seen.append(signature([folder]))
    path.unlink()
    path.symlink_to("nowhere")
    seen.append(signature([folder]))
    assert len(set(seen)) == 5
