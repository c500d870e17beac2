"""Where the agent's process imports modules from: its installation, and no project."""

from __future__ import annotations

import importlib.util
import json
import marshal
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from support.checkout import REPOSITORY

pytestmark = pytest.mark.process

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


@pytest.mark.parametrize("is_relative", [False, True])
def test_a_user_s_own_packages_count_unless_they_are_in_the_working_directory(
    environment: Path, tmp_path: Path, is_relative: bool
) -> None:
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = tmp_path / "base" / "lib" / version / "site-packages"
    packages.mkdir(parents=True)
    (packages / "msvcrt.py").write_text("X = 1\n")
    file = environment / "pyvenv.cfg"
    before = file.read_text()
    key = "include-system-site-packages = "
    file.write_text(before.replace(f"{key}false", f"{key}true"))
    base = "base" if is_relative else str(tmp_path / "base")
    try:
        variables = {"PYTHONUSERBASE": base}
        shown = run(environment, SHOW, "msvcrt", cwd=tmp_path, variables=variables)
    finally:
        file.write_text(before)
    folders, found, _ = json.loads(shown)
    assert bool(found["msvcrt"]) is not is_relative
    assert (str(packages) in folders) is not is_relative


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
        "from acp_agent.module_path import restrict, editable_places\nrestrict()\nplaces = list(editable_places())\n"
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


def dependency(environment: Path, project: Path, form: str) -> Iterator[None]:
    """Replace a dependency of the agent by an editable installation of a project."""
    site = next(environment.glob("lib/python*/site-packages"))
    hidden = site / "shtab"
    real = hidden.readlink()
    hidden.unlink()
    [info] = site.glob("shtab-*.dist-info")
    real_info = info.readlink()
    info.unlink()
    shutil.copytree(real_info, info)
    url = {"url": f"file://{quote(str(project))}", "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(url))
    folder = project / "src" if form == "a folder" else project
    shutil.copytree(real, folder / "shtab")
    if form == "a module":
        (folder / "shtab" / "__init__.py").rename(folder / "shtab.py")
        shutil.rmtree(folder / "shtab")
    pth = site / "__editable__.shtab.pth"
    pth.write_text(f"{folder}\n")
    if form == "a finder":
        text = FINDER.format(file=str(folder / "shtab" / "__init__.py"))
        (site / "_shop.py").write_text(text.replace('"ours"', '"shtab"'))
        pth.write_text("import _shop\n")
    try:
        yield
    finally:
        pth.unlink()
        shutil.rmtree(info)
        info.symlink_to(real_info)
        hidden.symlink_to(real)


editable = contextmanager(dependency)
PLACES = (
    "from acp_agent.module_path import editable_places, restrict\nrestrict()\n"
    "import json, shtab, importlib.util\n"
    "print(json.dumps([[*editable_places()], shtab.__file__, importlib.util.find_spec('msvcrt') is None]))"
)


@pytest.mark.parametrize("form", ["a folder", "a package", "a finder", "a module"])
def test_a_dependency_that_is_an_editable_installation_is_imported_and_protected(
    environment: Path, tmp_path: Path, form: str
) -> None:
    project = tmp_path.resolve() / "my project"
    project.mkdir()
    with editable(environment, project, form):
        for folder in (project, project / "src"):
            if folder.is_dir():
                (folder / "msvcrt.py").write_text("X = 1\n")
        places, file, is_hidden = json.loads(run(environment, PLACES))
        folder = project / "src" if form == "a folder" else project
        expected = folder / ("shtab.py" if form == "a module" else "shtab")
        assert places == [str(expected)]
        assert Path(file).is_relative_to(project)
        assert is_hidden
        help_ = run(
            environment,
            "import sys\nsys.argv = ['acp-agent', '--version']\nfrom acp_agent.__main__ import main\nmain()",
        )
        assert help_.startswith("acp-agent ")


@pytest.mark.parametrize("planted", ["shtab/__init__.py", "shtab.abi3.so", "bytecode"])
def test_nothing_that_is_put_beside_a_module_of_a_dependency_is_imported(
    environment: Path, tmp_path: Path, planted: str
) -> None:
    evil = f"open({str(tmp_path / 'ran')!r}, 'w').close()\n"
    with editable(environment, tmp_path, "a module"):
        source = tmp_path / "shtab.py"
        if planted == "bytecode":
            head = importlib.util.MAGIC_NUMBER + bytes(4)
            head += int(source.stat().st_mtime).to_bytes(4, "little")
            head += source.stat().st_size.to_bytes(4, "little")
            path = Path(importlib.util.cache_from_source(str(source)))
            path.parent.mkdir()
            path.write_bytes(head + marshal.dumps(compile(evil, str(source), "exec")))
        else:
            (tmp_path / planted).parent.mkdir(exist_ok=True)
            (tmp_path / planted).write_text(evil)
        code = (
            "from acp_agent.module_path import restrict\nrestrict()\n"
            "try:\n    import shtab\n"
            "except ModuleNotFoundError as error:\n    print(error.name)"
        )
        said = run(environment, code)
        assert said == ("" if planted == "bytecode" else "shtab\n")
        assert not (tmp_path / "ran").exists()


def test_a_module_that_only_another_project_s_editable_installation_has_is_named_in_a_sentence(
    environment: Path, tmp_path: Path
) -> None:
    with editable(environment, tmp_path, "a package"):
        [info] = next(environment.glob("lib/python*/site-packages")).glob("shtab-*")
        (info / "direct_url.json").unlink()
        done = subprocess.run(
            [environment / "bin" / "python", "-m", "acp_agent", "completion", "bash"],
            cwd="/",
            env={"PATH": os.defpath, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "shtab is only in the editable installation at" in done.stderr


def test_a_folder_for_bytecode_in_the_working_directory_is_not_used(
    environment: Path, tmp_path: Path
) -> None:
    for prefix, kept in ((".cache", None), (str(tmp_path), str(tmp_path))):
        shown = run(
            environment, SHOW, cwd=tmp_path, variables={"PYTHONPYCACHEPREFIX": prefix}
        )
        assert json.loads(shown)[2] == kept
