"""Where the agent's process imports modules from: its installation, and no project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from support.checkout import REPOSITORY

SHOW = """
import json, sys
from acp_agent.module_path import restrict
restrict()
import importlib.metadata
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = getattr(__import__(name), "__file__", None) or "here"
    except ModuleNotFoundError:
        found[name] = ""
print(json.dumps([sys.path, found, sys.pycache_prefix]))
"""
FINDER = """
import sys
from importlib.util import spec_from_file_location
class Finder:
    __module__ = "__editable___shop_finder"
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return spec_from_file_location(name, {file!r}) if name in ("msvcrt", "ours") else None
sys.meta_path.append(Finder)
"""
PLUG_IN = "from acp_agent.hooks import hook\n\n@hook('turn_end')\ndef ours(event, services):\n    return None\n"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the agent and its dependencies, without the project of any test."""
    place = tmp_path_factory.mktemp("agent") / "venv"
    venv.create(place, symlinks=True)
    site = next(place.glob("lib/python*/site-packages"))
    own = next(path for path in map(Path, sys.path) if path.name == "site-packages")
    for each in own.iterdir():
        if each.suffix != ".pth":
            (site / each.name).symlink_to(each)
    (site / "acp_agent").symlink_to(REPOSITORY / "acp_agent")
    return place


def run(
    environment: Path,
    code: str,
    *words: str,
    cwd: Path = Path("/"),
    variables: dict[str, str] | None = None,
) -> str:
    env = {
        "PATH": os.defpath,
        "HOME": "/nowhere",
        "PYTHONDONTWRITEBYTECODE": "1",
        **(variables or {}),
    }
    done = subprocess.run(
        [environment / "bin" / "python", "-c", code, *words],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "form",
    [
        "PYTHONPATH",
        "an empty entry",
        "a .pth file",
        "a finder",
        "-c",
        "a relative entry",
    ],
)
def test_no_module_of_a_project_is_imported_wherever_its_folder_is_named(
    environment: Path, tmp_path: Path, form: str
) -> None:
    names = ("msvcrt", "webcolors", "jsonpointer")
    for name in names:
        (tmp_path / f"{name}.py").write_text("X = 1\n")
    site = next(environment.glob("lib/python*/site-packages"))
    path = {
        "PYTHONPATH": str(tmp_path),
        "an empty entry": ":/opt/lib",
        "a relative entry": ".",
    }.get(form, "")
    pth = site / "__editable__.shop.pth"
    if form == "a .pth file":
        pth.write_text(f"{tmp_path}\n")
    if form == "a finder":
        (site / "_shop.py").write_text(FINDER.format(file=str(tmp_path / "msvcrt.py")))
        pth.write_text("import _shop\n")
    try:
        env = {"PYTHONPATH": path} if path else {}
        shown = run(
            environment,
            SHOW,
            *names,
            "anyio",
            "json",
            "_ctypes",
            cwd=tmp_path,
            variables=env,
        )
    finally:
        pth.unlink(missing_ok=True)
    folders, found, _ = json.loads(shown)
    assert not any(Path(found[name]).is_relative_to(tmp_path) for name in names)
    assert all(found[name] for name in ("anyio", "json", "_ctypes"))
    assert not [each for each in folders if Path(each).is_relative_to(tmp_path)]


@pytest.mark.parametrize("is_named", [False, True])
def test_a_folder_of_packages_that_a_packager_added_stays_unless_pythonpath_names_it(
    environment: Path, tmp_path: Path, is_named: bool
) -> None:
    packages = tmp_path / "lib" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "msvcrt.py").write_text("X = 1\n")
    pth = next(environment.glob("lib/python*/site-packages")) / "packager.pth"
    pth.write_text("" if is_named else f"{packages}\n")
    variables = {"PYTHONPATH": str(packages)} if is_named else {}
    try:
        shown = run(environment, SHOW, "msvcrt", variables=variables)
    finally:
        pth.unlink()
    _, found, _ = json.loads(shown)
    assert bool(found["msvcrt"]) is not is_named


@pytest.mark.parametrize("form", ["a .pth file", "a finder"])
def test_a_plug_in_that_is_an_editable_installation_is_found_and_belongs_to_the_installation(
    environment: Path, tmp_path: Path, form: str
) -> None:
    (tmp_path / "ours.py").write_text(PLUG_IN)
    (tmp_path / "msvcrt.py").write_text("X = 1\n")
    site = next(environment.glob("lib/python*/site-packages"))
    pth, metadata = site / "__editable__.ours.pth", site / "ours-1.0.dist-info"
    pth.write_text(f"{tmp_path}\n")
    if form == "a finder":
        (site / "_shop.py").write_text(FINDER.format(file=str(tmp_path / "ours.py")))
        pth.write_text("import _shop\n")
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: ours\nVersion: 1.0\n"
    )
    (metadata / "entry_points.txt").write_text("[acp_agent.hooks]\nours = ours\n")
    code = (
        "from acp_agent.module_path import restrict, plug_in_places\nrestrict()\nplaces = list(plug_in_places())\n"
        "from acp_agent.hooks.python_hooks import installed\nimport importlib.util, json\n"
        "found = installed()\n"
        "print(json.dumps([[h.name for h in found.hooks], places, importlib.util.find_spec('msvcrt') is None]))"
    )
    try:
        shown = run(environment, code, cwd=Path("/"))
    finally:
        pth.unlink()
        for each in metadata.iterdir():
            each.unlink()
        metadata.rmdir()
    assert json.loads(shown) == [["ours"], [str(tmp_path / "ours.py")], True]


def test_a_folder_for_bytecode_in_the_working_directory_is_not_used(
    environment: Path, tmp_path: Path
) -> None:
    for prefix, kept in ((".cache", None), (str(tmp_path), str(tmp_path))):
        shown = run(
            environment, SHOW, cwd=tmp_path, variables={"PYTHONPYCACHEPREFIX": prefix}
        )
        assert json.loads(shown)[2] == kept
