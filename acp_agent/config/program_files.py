"""Lists the files that programs read to find out what to run, such as a `Makefile`.

Source: the documentation of each program, for example make(1) and npm-run(1)
"""

from __future__ import annotations

from collections.abc import Mapping

_NODE = ("package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs")
_PYPROJECT = ("pyproject.toml",)
_GRADLE = (
    "gradlew", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts",
    "gradle/wrapper/gradle-wrapper.properties", "gradle/wrapper/gradle-wrapper.jar",
)  # fmt: skip
_MAVEN = (
    "pom.xml",
    ".mvn/extensions.xml",
    ".mvn/jvm.config",
    ".mvn/maven.config",
    ".mvn/wrapper/maven-wrapper.jar",
)
_ESLINT = (
    "eslint.config.js", "eslint.config.mjs", "eslint.config.cjs", "eslint.config.ts", ".eslintrc.js", ".eslintrc.cjs",
)  # fmt: skip
_PRETTIER = (
    "prettier.config.js", "prettier.config.mjs", "prettier.config.cjs", ".prettierrc.js", ".prettierrc.mjs",
    ".prettierrc.cjs",
)  # fmt: skip
READ_BY: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(
        ("npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx", "node", "corepack"), _NODE
    ),
    **dict.fromkeys(("uv", "uvx", "poetry", "hatch", "pdm", "rye", "pipx"), _PYPROJECT),
    **dict.fromkeys(
        ("pytest", "py.test"),
        ("conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml"),
    ),
    **dict.fromkeys(("invoke", "inv", "fab"), ("tasks.py", "fabfile.py")),
    **dict.fromkeys(("gradle", "gradlew"), _GRADLE),
    **dict.fromkeys(("mvn", "mvnw"), _MAVEN),
    **dict.fromkeys(("pre-commit", "prek"), (".pre-commit-config.yaml",)),
    **dict.fromkeys(("mise", "rtx"), ("mise.toml", ".mise.toml")),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile",),
    "bundle": ("Gemfile",),
    "composer": ("composer.json",),
    "tox": ("tox.ini", "pyproject.toml"),
    "nox": ("noxfile.py",),
    "lefthook": ("lefthook.yml", ".lefthook.yml"),
    "cargo": ("Cargo.toml", "build.rs", ".cargo/config.toml", ".cargo/config"),
    "deno": ("deno.json", "deno.jsonc"),
    "eslint": _ESLINT,
    "prettier": _PRETTIER,
    "direnv": (".envrc",),
    "nix": ("flake.nix",),
}
"""For each program, the files that it reads to find out what to run."""
CONFIGURATION = frozenset(name for names in READ_BY.values() for name in names)
"""The names of all these files."""
