"""`acp-agent run /export`, where nobody is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.called import call_command
from support.models import Reply, model_server


async def exported(tmp_path: Path, prompt: str) -> tuple[int, str]:
    """The exit status, and what is printed, of an export of a session in `tmp_path /
    "shop"`.
    """
    shop = tmp_path / "shop"
    shop.mkdir(exist_ok=True)
    async with model_server([Reply("A cart.")], "openai") as server:
        assert (
            await call_command(
                tmp_path, "run", "What is it?", env=server.env(), cwd=shop
            )
        ).code == 0
        ran = await call_command(
            tmp_path, "run", "--follow", prompt, env=server.env(), cwd=shop
        )
    return ran.code, ran.out + ran.err


@pytest.mark.parametrize("path", ["", "notes/talk.md"])
async def test_an_export_is_written_without_a_question_in_the_directories_of_the_session(
    tmp_path: Path, path: str
) -> None:
    code, said = await exported(tmp_path, f"/export {path}")
    assert code == 0, said
    [file] = (tmp_path / "shop").rglob("*.md")
    assert file.match(path or ".acp-agent/exports/sess_*.md")
    assert "A cart." in file.read_text()
    assert (
        f"The conversation was written to `{file.relative_to(tmp_path / 'shop')}`"
        in said
    )


@pytest.mark.parametrize(
    "path", ["../talk.md", ".github/talk.md", ".acp-agent/hooks/talk.md"]
)
async def test_an_export_is_not_written_to_another_place_without_a_question(
    tmp_path: Path, path: str
) -> None:
    code, said = await exported(tmp_path, f"/export {path}")
    assert code == 1
    assert "nobody is here to ask" in said
    assert not [*tmp_path.rglob("talk.md")]


async def test_an_export_does_not_follow_a_link_of_the_project_to_another_place(
    tmp_path: Path,
) -> None:
    (tmp_path / "shop" / ".acp-agent").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "shop" / ".acp-agent" / "exports").symlink_to(tmp_path / "elsewhere")
    code, _ = await exported(tmp_path, "/export")
    assert code == 1
    assert not [*(tmp_path / "elsewhere").iterdir()]
