# SPDX-License-Identifier: MIT
# Writes ops_pytorch_pools.safetensors, calls of windows, pools and norms, and batch_norm_steps.safetensors, a batch norm over
# three training steps and after them. Only needed when the cases change: python3 ops_pytorch_pools.py (pip install torch
# safetensors). See pytorch_cases.py.
import pathlib
import random

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from pytorch_cases import case, normal, save

max_pools = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
avg_pools = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
adaptive_max_pools = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}
adaptive_avg_pools = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}


def text(value):
    return str(value).lower()


def draw(rank, low, high):
    return [random.randint(low, high) for _ in range(rank)]


def both_sides(padding):
    return [p for p in padding for _ in range(2)]


def pool_case(rank, window, strides, padding, dilation, ceil, dims, include=None):
    """include: of avg_pool, which has no dilation in PyTorch."""
    attrs = f"window={window}, strides={strides}, padding={both_sides(padding)}, ceil_mode={text(ceil)}"
    if include is None:
        call = lambda x: max_pools[rank](x, window, strides, padding, dilation, ceil)
        op = f"max_pool(x, {attrs}, dilation={dilation})"
    else:
        call = lambda x: avg_pools[rank](x, window, strides, padding, ceil, include)
        op = f"avg_pool(x, {attrs}, count_include_pad={text(include)})"
    try:
        call(torch.zeros(dims))
    except RuntimeError:
        return False  # PyTorch has no such pool
    case(op, call, x=normal(dims))
    return True


def drawn_pool(rank, average):
    while True:
        window, strides, dilation = draw(rank, 1, 4), draw(rank, 1, 4), draw(rank, 1, 3)
        padding = [random.randint(0, (w if average else (w - 1) * d + 1) // 2) for w, d in zip(window, dilation)]
        dims = [random.randint(1, 2), random.randint(1, 2)] + draw(rank, 1, 9 if rank < 3 else 5)
        include = random.random() < 0.5 if average else None
        if pool_case(rank, window, strides, padding, dilation, random.random() < 0.5, dims, include):
            return


def pools():
    for rank in [1, 2, 3]:
        for _ in range(16 if rank < 3 else 6):
            drawn_pool(rank, False)
            drawn_pool(rank, True)
    # A last window that would start in the padding behind x is none, also with ceil_mode.
    for n in [4, 5, 6, 7]:
        for ceil in [False, True]:
            pool_case(1, [3], [3], [1], [1], ceil, [1, 1, n])
            for include in [False, True]:
                pool_case(1, [3], [3], [1], [1], ceil, [1, 1, n], include)
    case("max_pool(x, window=[2,2])", lambda x: F.max_pool2d(x, 2), x=normal([2, 3, 4, 6]))
    case("avg_pool(x, window=[3])", lambda x: F.avg_pool1d(x, 3), x=normal([2, 7]))
    # -inf in x: a window of nothing else has that value.
    inf = float("inf")
    case("max_pool(fixed, window=[2], padding=[1,1])", lambda x: F.max_pool1d(x, 2, padding=1), fixed=[[-inf, -inf, 1.0, 2.0]])
    case("max_pool(x, window=[37], strides=[3])", lambda x: F.max_pool1d(x, 37, 3), x=normal([2, 90]))
    case("avg_pool(x, window=[19,3], strides=[1,1])", lambda x: F.avg_pool2d(x, [19, 3], 1), x=normal([1, 1, 23, 5]))
    for rank in [1, 2, 3]:
        for _ in range(6):
            dims, size = [random.randint(1, 2), 2] + draw(rank, 1, 9), draw(rank, 1, 7)
            case(f"adaptive_avg_pool(x, output_size={size})", lambda x: adaptive_avg_pools[rank](x, size), x=normal(dims))
            case(f"adaptive_max_pool(x, output_size={size})", lambda x: adaptive_max_pools[rank](x, size), x=normal(dims))


def windows():
    for _ in range(6):
        dims = draw(random.randint(1, 3), 2, 9)
        axis = random.randrange(len(dims))
        size, step = random.randint(1, dims[axis]), random.randint(1, 4)
        case(f"unfold(x, axes=[{axis}], sizes=[{size}], steps=[{step}])", lambda x: x.unfold(axis, size, step), x=normal(dims))
    for length, size, step, dilation in [([5, 6], [2, 3], [1, 1], [1, 1]), ([7, 6], [3, 2], [2, 1], [1, 3]),
                                         ([9, 9], [5, 5], [2, 1], [1, 1]), ([8, 5], [2, 2], [3, 2], [2, 1])]:
        counts = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(length, size, step, dilation)]

        def folded(y):
            columns = y.permute(0, 1, 4, 5, 2, 3).reshape(2, 3 * size[0] * size[1], -1)
            return F.fold(columns, length, size, dilation, 0, step)

        case(f"fold(y0, axes=[2,3], lengths={length}, steps={step}, dilations={dilation})", folded,
             y0=normal([2, 3] + counts + size))


def norms():
    # Values around 0, and far from it: there a variance as a difference of means would be lost.
    for scale, offset in [(2.0, 0.0), (0.01, 0.0), (100.0, 0.0), (1.0, 1000.0)]:
        drawn = lambda dims: normal(dims, scale) + offset
        for dims, axis in [([3, 5], -1), ([2, 3, 4], 1), ([4, 3], -1), ([2, 70], 1), ([3, 2], 0)]:
            of_w = dims[axis:] if axis >= 0 else dims[-1:]
            case(f"layer_norm(x, w, b, axis={axis})", lambda x, w, b: F.layer_norm(x, of_w, w, b), x=drawn(dims),
                 w=normal(of_w), b=normal(of_w))
        case("layer_norm(x, w, eps=0.1)", lambda x, w: F.layer_norm(x, [6], w, eps=0.1), x=drawn([3, 6]), w=normal([6]))
        for dims, groups in [([2, 6, 5], 3), ([3, 4], 2), ([1, 4, 3, 2], 4), ([2, 4, 3, 2], 1), ([1, 2, 2, 3, 2], 2)]:
            case(f"group_norm(x, w, b, groups={groups})", lambda x, w, b: F.group_norm(x, groups, w, b), x=drawn(dims),
                 w=normal([dims[1]]), b=normal([dims[1]]))
        case("group_norm(x, groups=2)", lambda x: F.group_norm(x, 2), x=drawn([2, 4, 3]))
        for dims in [[2, 3, 5], [1, 2, 3, 4], [2, 1, 2, 2, 3]]:
            channels = [dims[1]]
            case("instance_norm(x, w, b)", lambda x, w, b: F.instance_norm(x, weight=w, bias=b), x=drawn(dims),
                 w=normal(channels), b=normal(channels))
        for dims in [[5, 3], [2, 3, 7], [3, 2, 3, 5], [2, 2, 2, 3, 2]]:
            channels = [dims[1]]
            case("batch_norm(x, w, b)", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), x=drawn(dims),
                 w=normal(channels), b=normal(channels))
            case("batch_norm(x, w, b, fixed_m, fixed_v)", lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b), x=drawn(dims),
                 w=normal(channels), b=normal(channels), fixed_m=normal(channels), fixed_v=torch.rand(channels) + 0.1)


def batch_norm_steps():
    """x of three steps (0.x, ..), and after each the outputs and statistics of layers of momentum 0.1 and none; then evaluation."""
    tensors = {}
    layers = {"moving": torch.nn.BatchNorm2d(3, momentum=0.1), "plain": torch.nn.BatchNorm2d(3, momentum=None)}
    with torch.no_grad():
        for layer in layers.values():
            layer.weight.copy_(torch.tensor([1.5, -0.5, 2.0]))
            layer.bias.copy_(torch.tensor([0.25, 1.0, -1.0]))
        for step in range(4):
            x = normal([4, 3, 2, 5], step + 1.0) + 10 * step
            tensors[f"{step}.x"] = x
            for name, layer in layers.items():
                layer.train(step < 3)
                tensors[f"{step}.{name}.y"] = layer(x)
                for key in ["running_mean", "running_var"]:
                    tensors[f"{step}.{name}.{key}"] = getattr(layer, key).clone()
    here = pathlib.Path(__file__).parent
    save_file({name: tensor.float().contiguous() for name, tensor in tensors.items()}, here / "batch_norm_steps.safetensors")


pools()
windows()
norms()
save("ops_pytorch_pools")
batch_norm_steps()
