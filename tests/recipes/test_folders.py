"""What is found in a folder of recipes and below it, and by what a change is noticed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.recipes import RecipeLibrary
from acp_agent.recipes.folders import MAX_FILES, MAX_TOLD, RecipeFolder, listing, signature


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


def library(root: Path) -> RecipeLibrary:
    return RecipeLibrary.discover(root / "none", root / "user", root / "project" / ".acp-agent" / "recipes", {})


def test_files_in_folders_are_named_by_their_path_and_hidden_ones_and_readmes_are_none(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "b/c.md", "b/d/e.md", "b/README.md", ".git/x.md", "b/.x.md", "b/notes.txt")
    found = listing(RecipeFolder("user", tmp_path))
    assert {name: path.relative_to(tmp_path).as_posix() for name, path in found.files.items()} == {
        "a": "a.md",
        "b/c": "b/c.md",
        "b/d/e": "b/d/e.md",
    }


def test_links_are_followed_once_and_nothing_is_walked_without_end(tmp_path: Path) -> None:
    write(tmp_path / "user", "a/x.md", "1/2/3/4/ok.md", "1/2/3/4/5/deep.md")
    write(tmp_path / "elsewhere", "team.md")
    (tmp_path / "user" / "a" / "again").symlink_to("..")
    (tmp_path / "user" / "team").symlink_to(tmp_path / "elsewhere")
    found = library(tmp_path)
    assert list(found.recipes) == ["1/2/3/4/ok", "a/x", "team/team"]
    [error] = found.errors
    assert str(error).startswith(
        f"{tmp_path / 'user/1/2/3/4/5'}: is more than 4 folders deep, where no recipe is looked"
    )


def test_a_file_whose_name_ends_in_other_letters_is_told_and_very_many_are_told_in_part(tmp_path: Path) -> None:
    write(tmp_path / "user", "x.MD", "y.md", "README.MD", ".z.MD", "w.mdx")
    [error] = library(tmp_path).errors
    assert str(error).startswith(
        f"{tmp_path / 'user/x.MD'}: is no recipe by its name, which has to end in .md; rename it"
    )
    write(tmp_path / "user", *(f"{number}.MD" for number in range(MAX_TOLD + 5)))
    errors = library(tmp_path).errors
    assert len(errors) == MAX_TOLD
    assert str(errors[-1]).endswith("There may be more such files and folders")
    assert listing(RecipeFolder("user", tmp_path / "user", "claude")).unread == ()


def test_a_folder_that_holds_very_many_is_used_in_part_and_named(tmp_path: Path) -> None:
    write(tmp_path, *(f"{number:04}.md" for number in range(MAX_FILES + 5)))
    found = listing(RecipeFolder("user", tmp_path))
    assert len(found.files) == MAX_FILES
    [(path, why)] = found.unread
    assert (path, f"it has more than {MAX_FILES} files, and the others are left out" in why) == (tmp_path, True)


def test_a_projects_folder_in_a_folder_may_not_lead_out_of_it(tmp_path: Path) -> None:
    recipes = tmp_path / "project" / ".acp-agent" / "recipes"
    write(recipes, "a.md")
    write(tmp_path / "elsewhere", "leak.md", "leak2.md")
    (recipes / "out").symlink_to(tmp_path / "elsewhere")
    found = library(tmp_path)
    assert list(found.recipes) == ["a"]
    assert [error.source for error in found.errors] == [str(recipes / "out")]
    assert "is a link that leads out of" in str(found.errors[0])


def test_a_recipe_in_a_folder_may_call_itself_by_its_whole_name_or_the_last_part(tmp_path: Path) -> None:
    write(tmp_path / "user", "github/pr.md", "github/issue.md", "github/other.md")
    for name, said in (("pr", "pr"), ("issue", "github/issue"), ("other", "zebra")):
        (tmp_path / "user" / "github" / f"{name}.md").write_text(f"---\nname: {said}\n---\nx")
    found = library(tmp_path)
    assert list(found.recipes) == ["github/issue", "github/pr"]
    assert found.get("github:pr") is found.get("github/pr") is found.recipes["github/pr"]
    assert "says 'zebra', but the file is github/other.md" in str(found.errors[0])


@settings(deadline=None, max_examples=40)
@given(
    st.dictionaries(st.sampled_from(["a.md", "b.md", "c/d.md", "c/e/f.md"]), st.text("xy", min_size=1, max_size=3)),
    st.dictionaries(st.sampled_from(["a.md", "b.md", "c/d.md", "c/e/f.md"]), st.text("xy", min_size=1, max_size=3)),
)
def test_the_signature_is_another_one_exactly_where_files_are(
    tmp_path_factory: pytest.TempPathFactory, before: dict[str, str], after: dict[str, str]
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


def test_a_change_that_keeps_time_and_size_is_a_change(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    (tmp_path / "a.md").write_text("one")
    before, first = (tmp_path / "a.md").stat(), signature([RecipeFolder("user", tmp_path)])
    while (tmp_path / "a.md").stat().st_ctime_ns == before.st_ctime_ns:  # the file system's clock may be coarse
        (tmp_path / "a.md").write_text("two")
        os.utime(tmp_path / "a.md", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert signature([RecipeFolder("user", tmp_path)]) != first


def test_a_folder_that_appears_or_cannot_be_read_is_a_change(tmp_path: Path) -> None:
    folder = RecipeFolder("user", tmp_path / "recipes")
    seen = [signature([folder])]
    folder.path.write_text("")
    seen.append(signature([folder]))
    folder.path.unlink()
    write(folder.path, "a.md")
    seen.append(signature([folder]))
    (folder.path / "a.md").unlink()
    (folder.path / "a.md").symlink_to("nowhere")
    seen.append(signature([folder]))
    assert len(set(seen)) == 4
