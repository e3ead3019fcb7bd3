#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who may include whom: the table below. Every file may include its own layer.

Tests beside the sources may include every layer of the library (CMakeLists.txt lists what they link); nothing but tests may
include a header of tests."""
import pathlib
import re

import cpp_source

includes_allowed = {
    "base": "",
    "graph": "base",
    "kir": "base",
    "io": "base",
    "program": "base io kir",
    "ops": "base graph kir",
    "transform": "base graph",
    "rewrite": "base graph",
    "kernels": "base kir program",
    "emit": "base kir program",
    "plan": "base graph kir kernels program",
    "device": "base program",
    "device/vulkan": "base program device",
    "device/webgpu": "base program device",
    "device/interp": "base program kir device",
    "device/cpu": "base program kir device",
    "runtime": "base graph kir io program ops transform rewrite kernels emit plan"
    " device device/vulkan device/webgpu device/interp device/cpu",
    "import": "base graph ops io",
    "nn": "base graph ops transform io runtime",
}
# What stands on top of the layers may include all of them and, of each other, only what is named here.
programs_allowed = {"cli": "", "capi": "", "tests": "cli capi", "examples": "", "bench": "", "python": "capi", "web": "capi"}
# Third-party headers that stay inside one folder.
confined_headers = {"vulkan/": "darner/device/vulkan/", "webgpu/": "darner/device/webgpu/", "CLI/": "cli/"}

_include = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)


def layer_of(path):
    """ "darner/device/vulkan/memory.h" -> "device/vulkan"; None for a file directly in darner/ or outside the library."""
    folders = path.split("/")[1:-1] if path.startswith("darner/") else []
    for length in (2, 1):
        name = "/".join(folders[:length])
        if name in includes_allowed:
            return name
    return None


def problem_of(path, quote, target):
    if quote == "<":
        for prefix, folder in confined_headers.items():
            if target.startswith(prefix) and not path.startswith(folder):
                return f"<{target}> may only be included in {folder}"
        return None
    if not (cpp_source.root / target).is_file():
        return f'"{target}" is no file of the repository: includes are spelled from the root, as "darner/base/result.h"'
    program, layer = path.split("/")[0], layer_of(path)
    target_program, target_layer = target.split("/")[0], layer_of(target)
    if program != "darner":
        allowed = ["darner", program, *programs_allowed[program].split()]
        if target_program not in allowed:
            return f"{program}/ may not include {target_program}/: only {', '.join(allowed)}"
        return None
    if cpp_source.is_test(pathlib.Path(path)):
        return None if target_program == "darner" else f"a test of the library may not include {target_program}/"
    if cpp_source.is_test(pathlib.Path(target)):
        return f'"{target}" is for tests only'
    if path.count("/") == 1:
        return None  # the umbrella header
    if layer is None:
        return "this folder is no layer: add it to the table in tools/check_layers.py"
    allowed = includes_allowed[layer].split()
    if target_program != "darner" or (target_layer != layer and target_layer not in allowed):
        return f"{layer} may not include {target_layer or target}: only {', '.join(allowed) or 'nothing of ours'}"
    return None


problems = []
for source in cpp_source.sources("darner", *programs_allowed):
    # Not blanked: an include's own path looks like a string.
    text = cpp_source.without_comments(source.read_text(encoding="utf-8"))
    for match in _include.finditer(text):
        problem = problem_of(cpp_source.shown(source), match[1], match[2])
        if problem:
            line = text.count("\n", 0, match.start()) + 1
            problems.append(f"{cpp_source.shown(source)}:{line}: {problem}")
cpp_source.finish("layers", problems, "Move the code to the layer that may know both sides.")
