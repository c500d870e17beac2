"""How the program of an MCP server is started: from nowhere and with nothing that a
repository has put there.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from acp_agent.config.settings import McpServer
from acp_agent.errors import ToolError
from acp_agent.mcp.launch import launch
from acp_agent.mcp.model import environment_for, with_values
from acp_agent.programs import distrust
from support.mcp import logged, mcp_program, ready
from support.memory import stage
from support.replies import Reply

PLANTED = "import os; os.mkdir(os.environ['RAN'] + '/' + __name__); raise SystemExit('planted')\n"
"""What a repository would like to be run. `RAN` stands in for a server's token."""


def server(command: str, *args: str, **env: str) -> McpServer:
    return McpServer(name="one", command=command, args=args, env=env, variables=True)


def plant_all_over(folder: Path) -> Path:
    """Put what interpreters, package managers and shells pick up from a working
    directory into a folder, each of which would leave a trace in the folder that is
    returned.
    """
    ran = folder.parent / "ran"
    ran.mkdir()
    texts = {
        f"{name}.py": PLANTED
        for name in (
            "json",
            "mcp",
            "asyncio",
            "typing",
            "sitecustomize",
            "usercustomize",
        )
    }
    texts |= {"encodings/__init__.py": PLANTED, "__main__.py": PLANTED}
    texts |= {
        ".npmrc": f"node-options=--require {folder}/planted.js\nscript-shell={folder}/bin/sh\n"
    }
    texts |= {"planted.js": f"require('fs').mkdirSync('{ran}/node')"}
    texts |= {
        "package.json": '{"name": "planted", "bin": {"planted-server": "planted.js"}}'
    }
    texts |= {
        "bunfig.toml": 'preload = ["./planted.js"]',
        ".env": f"NODE_OPTIONS=--require={folder}/planted.js",
    }
    texts |= {
        "uv.toml": 'index-url = "http://127.0.0.1:9/"',
        ".python-version": f"{folder}/bin/python3",
    }
    for place in ("bin", ".venv/bin", "node_modules/.bin"):
        for name in ("python3", "node", "npx", "planted-server", "sh", "env", "git"):
            texts[f"{place}/{name}"] = f"#!/bin/sh\nmkdir '{ran}/{name}'\n"
    for name, text in texts.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    return ran


@pytest.mark.parametrize(
    "words",
    [
        ("python3", "-m", "server"),
        ("python3", "-c", "import json, typing, server"),
        ("sh", "-c", "python3 -m server; git --version; node --version"),
        ("env", "python3", "-m", "server"),
    ],
)
async def test_a_repository_that_is_only_opened_runs_nothing_in_the_user_s_own_servers(
    tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "server.py").write_text(
        "import json, asyncio, typing; raise SystemExit('the real one')"
    )
    project = tmp_path / "project"
    ran = plant_all_over(project)
    folders = [project / each for each in ("bin", ".venv/bin", "node_modules/.bin")]
    path = ":".join(["", "bin", *map(str, folders), os.environ["PATH"]])
    monkeypatch.chdir(project)
    env = {"RAN": str(ran), "PYTHONPATH": f":{library}"}
    configured = {"command": words[0], "args": [*words[1:]], "env": env}
    given = {"name": "given", "command": words[0], "args": [*words[1:]]}
    given["env"] = [
        {"name": name, "value": value} for name, value in {**env, "PATH": path}.items()
    ]
    async with stage(
        tmp_path,
        Reply("Hi."),
        env={"PATH": path},
        config={"mcp_servers": {"own": configured}},
        mcp=[given],
    ) as it:
        assert it.folder == project
        for name in ("own", "given"):
            assert "the real one" in await logged(
                it, f"MCP server {name} could not be started"
            )
        await it.prompt()
    assert list(ran.iterdir()) == []


@pytest.mark.parametrize("place", [".venv/bin", "node_modules/.bin", "."])
async def test_a_server_that_only_the_project_has_is_not_started_and_the_user_hears_why(
    tmp_path: Path, place: str
) -> None:
    project = tmp_path / "project"
    ran = plant_all_over(project)
    path = f"{project / place}:{os.environ['PATH']}"
    entry = {
        "name": "own",
        "command": "planted-server" if place != "." else "./bin/node",
        "args": [],
        "env": [],
    }
    async with stage(tmp_path, Reply("Hi."), env={"PATH": path}, mcp=[entry]) as it:
        said = await logged(it, "MCP server own could not be started")
        assert "others can write there" in said or "nor a full path" in said
        await it.prompt()
        assert (
            "give the program's full path" in it.agent.text()
            or "nor a full path" in it.agent.text()
        )
    assert list(ran.iterdir()) == []


async def test_an_entry_names_the_session_s_directory_by_a_variable(
    tmp_path: Path,
) -> None:
    program = mcp_program(tmp_path, "own")
    configured = {**program.configured, "env": {"DIR": "${ACP_AGENT_PROJECT_DIR}/docs"}}
    async with stage(
        tmp_path, Reply("Hi."), config={"mcp_servers": {"own": configured}}
    ) as it:
        await ready(it, "own")
        [start] = [note for note in program.notes() if "started" in note]
        assert start["env"]["DIR"] == f"{it.folder}/docs"
        assert start["env"]["CLAUDE_PROJECT_DIR"] == str(it.folder)


async def test_a_server_that_fails_with_a_relative_path_is_told_of_with_what_to_write_instead(
    tmp_path: Path,
) -> None:
    program = mcp_program(tmp_path, "own", exit=3)
    entry = {**program.entry, "args": [*program.entry["args"], "--repository", "."]}
    async with stage(tmp_path, Reply("Hi."), mcp=[entry]) as it:
        await it.prompt()
        assert "so '.' points elsewhere" in it.agent.text()
        assert "${ACP_AGENT_PROJECT_DIR}" in it.agent.text()


def test_a_script_of_the_user_s_imports_what_lies_beside_it_and_a_module_nothing_of_where_it_starts() -> (
    None
):
    env = environment_for(Path("/project"))
    assert launch(server("python3", "-m", "server"), env).env["PYTHONSAFEPATH"] == "1"
    assert (
        "PYTHONSAFEPATH"
        not in launch(server("python3", "/home/me/server/main.py"), env).env
    )
    assert (
        launch(server("python3", "-m", "server", PYTHONSAFEPATH=""), env).env[
            "PYTHONSAFEPATH"
        ]
        == ""
    )


def test_the_path_of_an_entry_loses_what_others_write_too(tmp_path: Path) -> None:
    distrust((tmp_path,))
    entry = server("sh", PATH=f"{tmp_path}/bin:${{PATH}}:relative:")
    env = {**environment_for(tmp_path), "PATH": f"{tmp_path}/.venv/bin:/usr/bin"}
    assert launch(with_values(entry, env), env).env["PATH"] == "/usr/bin"


def test_a_program_that_is_nowhere_is_named() -> None:
    with pytest.raises(ToolError, match="no-such-program was not found on the PATH"):
        launch(server("no-such-program"), environment_for(Path("/")))
