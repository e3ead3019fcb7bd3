# SPDX-License-Identifier: MIT
"""C++ sources as the checks see them: which files there are, and their text without comments or without strings.

Blanked text keeps its line breaks, so that line numbers stay true. No preprocessing and no parsing."""
import pathlib
import re

root = pathlib.Path(__file__).resolve().parent.parent

# A raw string, a string, a character or a comment: whichever starts first. A digit before ' makes it a separator (1'000).
_token = re.compile(
    r"""R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])*'|//[^\n]*|/\*.*?\*/""",
    re.DOTALL,
)


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def without_comments(text):
    return _token.sub(lambda m: _blank(m[0]) if m[0].startswith(("//", "/*")) else m[0], text)


def code_only(text):
    """Comments blank, strings and characters replaced by their quotes."""

    def replace(match):
        if match[0].startswith(("//", "/*")):
            return _blank(match[0])
        return '"' + _blank(match[0][1:-1]) + '"'

    return _token.sub(replace, text)


def sources(*folders):
    """The .h and .cpp files under the folders (of the repository's root), in order."""
    found = []
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cpp") and "node_modules" not in path.parts:
                found.append(path)
    return found


def is_test(path):
    """foo_test.cpp, and headers for tests only: foo_test.h, test_foo.h."""
    return "_test." in path.name or path.name.startswith("test_")


def shown(path):
    return path.relative_to(root).as_posix()


def finish(name, problems, advice):
    """Prints the problems and ends the program: 0 when there are none."""
    for problem in problems:
        print(problem)
    if problems:
        print(f"{name}: {len(problems)} problem{'s' if len(problems) > 1 else ''}. {advice}")
        raise SystemExit(1)
    print(f"{name}: good")
