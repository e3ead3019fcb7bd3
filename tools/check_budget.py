#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Line ceilings (tools/budget.txt) and the longest file and function: 800 and 120 lines, tests included.

--report prints what each folder has."""
import re
import sys

import cpp_source

max_file_lines = 800
max_function_lines = 120
programs = ["cli", "capi", "tests", "examples", "bench", "python", "web"]

# Heads of blocks that are part of a function, or hold declarations.
_not_a_function = re.compile(
    r"(?:else|if|for|while|switch|do|try|catch|namespace|class|struct|union|enum|concept|extern|return|case|default)\b"
)
# A parameter list, then what may stand between it and the body: const noexcept override, -> type, requires, : a_(b).
_function_head = re.compile(
    r"\)\s*(?:(?:const|noexcept|override|final|mutable|&&?)\s*)*(?:->[^;]*|requires[^;]*|:\s*\w[^;]*\))?\s*$"
)


def code_lines(text):
    return sum(1 for line in cpp_source.without_comments(text).split("\n") if line.strip())


def functions(text):
    """(first line, lines, head) of each function and lambda, from the start of its head to its closing brace."""
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m[0]), cpp_source.code_only(text), flags=re.M)
    open_blocks, head_begin, parentheses = [], 0, 0
    for at in (m.start() for m in re.finditer(r"[{};()]", code)):
        symbol = code[at]
        if symbol in "()":
            parentheses += 1 if symbol == "(" else -1
            continue
        if symbol == "{":
            head = code[head_begin:at]
            begin = head_begin + len(head) - len(head.lstrip())
            is_function = bool("(" in head and _function_head.search(head)) and not _not_a_function.match(head.lstrip())
            open_blocks.append((begin, head.strip(), is_function, parentheses, head_begin))
            parentheses = 0
        elif symbol == "}" and open_blocks:
            begin, head, is_function, parentheses, head_before = open_blocks.pop()
            if is_function:
                first = code.count("\n", 0, begin) + 1
                yield first, code.count("\n", 0, at) + 2 - first, next(line.strip() for line in head.split("\n") if "(" in line)
            if parentheses > 0:  # a {} within an argument list: the head goes on
                head_begin = head_before
                continue
        if symbol != ";" or parentheses == 0:  # the semicolons of for (;;) end no head
            head_begin = at + 1


def budgets():
    for number, line in enumerate((cpp_source.root / "tools/budget.txt").read_text().split("\n"), 1):
        fields = line.split("#")[0].split()
        if not fields:
            continue
        if len(fields) < 3 or not fields[1].isdigit():
            sys.exit(f"tools/budget.txt:{number}: expected: name ceiling folder...")
        yield fields[0], int(fields[1]), fields[2:]


def count(folders):
    files = [path for path in cpp_source.sources(*folders) if not cpp_source.is_test(path)]
    return sum(code_lines(path.read_text(encoding="utf-8")) for path in files)


problems = []
for source in cpp_source.sources("darner", *programs):
    text = source.read_text(encoding="utf-8")
    lines = text.count("\n")
    if lines > max_file_lines:
        problems.append(f"{cpp_source.shown(source)}: {lines} lines, at most {max_file_lines} are allowed")
    for first, length, head in functions(text):
        if length > max_function_lines:
            problems.append(
                f"{cpp_source.shown(source)}:{first}: a function of {length} lines, at most {max_function_lines} are allowed: {head}"
            )
for name, ceiling, folders in budgets():
    lines = count(folders)
    if lines > ceiling:
        problems.append(f"tools/budget.txt: {name} has {lines} code lines, its ceiling is {ceiling}")
    if "--report" in sys.argv[1:]:
        print(f"{name:16}{lines:7} of {ceiling}")
        for folder in folders:
            print(f"  {folder:22}{count([folder]):7}")
cpp_source.finish(
    "budget", problems, "Split by concept, or take code away; do not squeeze lines. A ceiling is raised in a commit of its own."
)
