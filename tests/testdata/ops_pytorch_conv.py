# SPDX-License-Identifier: MIT
# Writes ops_pytorch_conv.safetensors: convolutions and transposed ones. Only needed when the cases
# change: python3 ops_pytorch_conv.py (pip install torch safetensors). See pytorch_cases.py.
import random

import torch
import torch.nn.functional as F

from pytorch_cases import case, normal, save

convs = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
transposed = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def draw(rank, low, high):
    return [random.randint(low, high) for _ in range(rank)]


def padded(x, padding):
    """Zeros, or elements left out, at both ends of each spatial axis: F.pad takes the last axis first."""
    pairs = [padding[i:i + 2] for i in range(0, len(padding), 2)]
    return F.pad(x, [p for pair in reversed(pairs) for p in pair])


def conv_case(rank, channels, outputs, groups, taps, strides, padding, dilation, dims, bias, batch=2):
    attrs = f"strides={strides}, padding={padding}, dilation={dilation}, groups={groups}"
    inputs = dict(x=normal([batch, channels] + dims), w=normal([outputs, channels // groups] + taps))
    if bias:
        inputs["b"] = normal([outputs])
    case(f"conv({', '.join(inputs)}, {attrs})",
         lambda x, w, b=None: convs[rank](padded(x, padding), w, b, strides, 0, dilation, groups), **inputs)


def transposed_case(rank, channels, outputs, groups, taps, strides, padding, dilation, more, dims, bias):
    both = [p for p in padding for _ in range(2)]
    attrs = f"strides={strides}, padding={both}, output_padding={more}, dilation={dilation}, groups={groups}"
    inputs = dict(x=normal([2, channels] + dims), w=normal([channels, outputs // groups] + taps))
    if bias:
        inputs["b"] = normal([outputs])
    case(f"conv_transpose({', '.join(inputs)}, {attrs})",
         lambda x, w, b=None: transposed[rank](x, w, b, strides, padding, more, groups, dilation), **inputs)


def drawn(rank):
    groups = random.choice([1, 1, 2, 3])
    channels, outputs = groups * random.randint(1, 3), groups * random.randint(1, 3)
    return groups, channels, outputs, draw(rank, 1, 4 if rank < 3 else 3), draw(rank, 1, 3), draw(rank, 1, 3)


for rank, count in [(1, 24), (2, 16), (3, 6)]:
    for _ in range(count):
        groups, channels, outputs, taps, strides, dilation = drawn(rank)
        padding = draw(2 * rank, -1, 3)
        spans = [d * (t - 1) + 1 for d, t in zip(dilation, taps)]
        dims = [max(2, s - padding[2 * i] - padding[2 * i + 1]) + random.randint(0, 5 - rank) for i, s in enumerate(spans)]
        conv_case(rank, channels, outputs, groups, taps, strides, padding, dilation, dims, random.random() < 0.5)
    for _ in range(count):
        groups, channels, outputs, taps, strides, dilation = drawn(rank)
        spans = [d * (t - 1) + 1 for d, t in zip(dilation, taps)]
        padding = [random.randint(0, s // 2) for s in spans]
        more = [random.randint(0, max(s, d) - 1) for s, d in zip(strides, dilation)]
        dims = [random.randint(2, 5 - rank + 1) for _ in range(rank)]
        transposed_case(rank, channels, outputs, groups, taps, strides, padding, dilation, more, dims, random.random() < 0.5)

conv_case(2, 4, 4, 4, [3, 3], [1, 1], [1, 1, 1, 1], [1, 1], [6, 5], True)  # depthwise
conv_case(2, 6, 5, 1, [1, 1], [1, 1], [0, 0, 0, 0], [1, 1], [4, 3], True)  # 1x1
conv_case(2, 3, 2, 1, [4, 4], [4, 4], [0, 0, 0, 0], [1, 1], [8, 12], False)  # patches
conv_case(2, 2, 2, 1, [2, 2], [3, 4], [0, 0, 0, 0], [1, 1], [9, 9], False)  # strides above the kernel
conv_case(1, 1, 1, 1, [3], [1], [1, 1], [1], [1], True, batch=1)
transposed_case(2, 3, 2, 1, [2, 2], [2, 2], [0, 0], [1, 1], [0, 0], [3, 4], True)

save("ops_pytorch_conv")
