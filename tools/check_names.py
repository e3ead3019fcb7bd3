#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""No target names an op, and no op names a target.

Ops are the names in darner/ops. Those that the kernel IR has as opcodes (add, exp) or that are ordinary words of code (sum,
slice) may stand anywhere; all others (softmax, rms_norm) may not occur, as an identifier or in a string, in devices and
emitters. A new op is covered by existing. Comments are free."""
import re

import cpp_source

target_folders = ["darner/device", "darner/emit"]
op_folders = ["darner/ops", "darner/graph", "darner/transform", "darner/rewrite", "darner/kir", "darner/kernels"]
ordinary_words = set(
    """abs add all and any broadcast cast ceil clamp concat cond constant cos dot equal floor gather get greater index
    input iota isfinite isinf isnan less linear log max maximum mean min minimum mod mul negate normal not or output
    pad param pow prod product rem reshape resize reverse round scan select sign sin slice sort split stack std sub sum
    tile transpose trunc uniform where while""".split()
)
_target = re.compile(r"vulkan|spir-?v|wgsl|webgpu", re.IGNORECASE)
_op_entry = re.compile(r'\.name\s*=\s*"([a-z][a-z0-9_]*)"')
_word = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def texts(folders):
    for path in cpp_source.sources(*folders):
        if not cpp_source.is_test(path):
            yield cpp_source.shown(path), cpp_source.without_comments(path.read_text(encoding="utf-8"))


def lines_with(pattern, text):
    for number, line in enumerate(text.split("\n"), 1):
        for match in pattern.finditer(line):
            yield number, match[0]


ops = {name for _, text in texts(["darner/ops"]) for name in _op_entry.findall(text)}
kernel_ir = cpp_source.without_comments((cpp_source.root / "darner/kir/kernel.h").read_text(encoding="utf-8"))
forbidden = ops - ordinary_words - set(_word.findall(kernel_ir))

problems = []
if not ops:
    problems.append('darner/ops: no op entry (.name = "...") was found: the check has nothing to look for')
for path, text in texts(target_folders):
    for number, word in lines_with(_word, text):
        if word in forbidden:
            problems.append(f"{path}:{number}: a target names the op {word}")
for path, text in texts(op_folders):
    for number, word in lines_with(_target, text):
        problems.append(f"{path}:{number}: target-neutral code names the target {word}")
cpp_source.finish("names", problems, "Ops reach a target only as kernel IR; what a target can do reaches ops only as Caps.")
