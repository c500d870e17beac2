"""Which words of a summary are names in code: paths, codes, digests, and words written as only code writes them.

It does not know where a name is looked up. Names of products and standards that look like code are none.
"""

from __future__ import annotations

import re

from acp_agent.compaction.provenance_numbers import NUMBER

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HASH = re.compile(r"(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,40}")
_CODED = re.compile(
    r"(?!(?:AES|BASE|CP|ES|GMT|GPT|IEEE|ISO|L|MD|RSA|SHA|UTC|UTF|WIN|X)-?\d)"
    r"(?:[A-Z]{1,8}\d{2,6}|[A-Z][A-Z\d]{1,9}(?:-\d{1,7}){1,2})"
)
CODE_WORD = re.compile(r"\w*[a-z\d]_\w*|_+[a-zA-Z]\w*|[A-Z][A-Z\d]*_\w+|[A-Z]+[a-z\d]+[A-Z]\w*|[a-z]+[A-Z]\w*")
_KNOWN_EXTENSIONS = """
bash bat bazel bin c cc cfg cjs clj cmake conf cpp cs css csv cts cxx db dart diff ex exs fish fs gif go gql gradle
graphql h hh hpp hs html ini ipynb java jpeg jpg js json jsonl jsx kt kts less lock log lua m md mdx mjs ml mts nix
patch pdf php pl png po proto ps1 py pyc pyi pyx r rb rs rst sass scala scss sh sql sqlite svelte svg swift tar tex tf
toml ts tsv tsx txt vim vue wasm xhtml xml yaml yml zig zip zsh
"""
_EXTENSIONS = frozenset(_KNOWN_EXTENSIONS.split())
_PRODUCTS = """
JavaScript TypeScript CoffeeScript GitHub GitLab BitBucket OpenAI DeepSeek macOS iOS iPadOS PyPI PyCharm LaTeX
PostgreSQL MySQL SQLite MongoDB GraphQL NumPy SciPy PyTorch TensorFlow WebSocket YouTube LinkedIn IntelliJ Node.js
Next.js Vue.js Express.js e.g i.e HTTP/1.0 HTTP/1.1 24/7
"""
NAMES = frozenset(_PRODUCTS.split())


def is_coded(name: str) -> bool:
    """Whether an identifier is a code of letters and a number, such as `TS2345`, `CVE-2031-1234` and `PROJ-77`."""
    return _CODED.fullmatch(name) is not None


def is_digest(name: str) -> bool:
    """Whether a word is a UUID, or a commit or another digest in hexadecimal and not a number with a unit."""
    return bool(_UUID.fullmatch(name) or (_HASH.fullmatch(name) and not NUMBER.fullmatch(name)))


def is_path(said: str, code: bool) -> bool:
    """Whether a word is a path: by its beginning, its end, an extension, or (with a slash) by looking like code."""
    last = said.rstrip("/").rpartition("/")[2]
    stem, dot, extension = last.rpartition(".")
    named = bool(dot and stem and extension.lower() in _EXTENSIONS)
    if "/" not in said:
        return named or bool(re.fullmatch(r"\.[a-zA-Z][\w.-]{2,}", said))
    if not re.search(r"\w", said) or said.replace("/", "").isdecimal():
        return False
    if named or code or said.startswith(("/", "./", "../", "~/")) or said.endswith("/"):
        return len(said.strip("/.~")) > 1
    return bool(dot and stem and re.fullmatch(r"[a-zA-Z]\w{0,7}", extension)) or (
        bool(re.search(r"[a-z]_[a-z]|\w-\w", said)) and not re.search(r"[A-Z]", said)
    )
