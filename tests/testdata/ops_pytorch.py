# SPDX-License-Identifier: MIT
# Writes ops_pytorch.safetensors: calls of elementwise ops, rearrangements, look-ups, reductions and losses. Only needed when the
# cases change: python3 ops_pytorch.py (pip install torch safetensors). See pytorch_cases.py.
import random

import torch
import torch.nn.functional as F

from pytorch_cases import case, normal, save, shape

inf = float("inf")


def between(dims, low, high):
    return torch.rand(dims) * (high - low) + low


def whole(dims, low, high):
    return torch.randint(low, high + 1, dims, dtype=torch.int32)


def axis_of(dims):
    return random.randrange(len(dims)) - random.choice([0, len(dims)])


def unary(name, function, low, high, edges, attrs=""):
    """Drawn values, then the edges: where formulas cancel, overflow or have a kink."""
    case(f"{name}(x{attrs})", function, x=between(shape(), low, high))
    case(f"{name}(x{attrs})", function, x=torch.tensor(edges))


def functions():
    ties = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.0, 3.25, -7.75, 8388609.0]
    for name in ["ceil", "floor", "trunc", "round"]:
        unary(name, getattr(torch, name), -9, 9, ties)
    small = [0.0, 1e-30, -1e-30, 1e-7, -1e-7, 1e-3, -1e-3]
    unary("reciprocal", torch.reciprocal, 0.2, 3, [1e-20, -1e20, 3.0, -0.5])
    unary("exp2", torch.exp2, -9, 9, small + [100.0, -100.0])
    unary("expm1", torch.expm1, -4, 4, small + [80.0, -20.0, 0.35, -0.35])
    unary("log2", torch.log2, 0.01, 9, [1e-30, 1e30, 1.0, 1.0001])
    unary("log1p", torch.log1p, -0.9, 9, small + [1e30, -0.9999, 0.4143, -0.2929])
    unary("tan", torch.tan, -1.4, 1.4, small + [1.5, -1.5, 3.0])
    unary("asin", torch.asin, -0.95, 0.95, small + [0.5, -0.5, 0.999999, -0.999999])
    unary("acos", torch.acos, -0.95, 0.95, small + [0.5, -0.5, 0.999999, -0.999999])
    unary("atan", torch.atan, -9, 9, small + [1.0, -1.0, 1e15, -1e15])
    unary("sinh", torch.sinh, -4, 4, small + [88.0, -88.0, 1.0])
    unary("cosh", torch.cosh, -4, 4, small + [88.0, -88.0, 1.0])
    unary("asinh", torch.asinh, -9, 9, small + [1e15, -1e15, 4095.0, 4097.0])
    unary("acosh", torch.acosh, 1.1, 9, [1.000001, 1.5, 4096.0, 4098.0, 1e15])
    unary("atanh", torch.atanh, -0.9, 0.9, small + [0.999999, -0.999999])
    unary("erf", torch.erf, -3, 3, small + [1.0, -1.0, 10.0, -1e10])
    unary("erfc", torch.erfc, -3, 3, small + [1.0, -1.0, 8.5, -1e10])
    unary("clamp", lambda x: x.clamp(-1, 2), -4, 4, [-1.0, 2.0, 0.0, inf, -inf], ", min=-1, max=2")
    unary("clamp", lambda x: x.clamp(max=0.5), -4, 4, [0.5, -1e30], ", max=0.5")
    unary("abs", torch.abs, -4, 4, [0.0, -1e30])
    unary("sign", torch.sign, -4, 4, [0.0, -1e30])
    unary("sqrt", torch.sqrt, 0.1, 9, [1e-30, 1e30])
    unary("rsqrt", torch.rsqrt, 0.1, 9, [1e-30, 1e30])
    unary("sigmoid", torch.sigmoid, -9, 9, [80.0, -80.0, 1e10, -1e10, 0.0])
    unary("tanh", torch.tanh, -3, 3, small + [1e10, -1e10])
    for name in ["isnan", "isinf", "isfinite"]:
        case(f"{name}(x)", getattr(torch, name), x=torch.tensor([0.0, inf, -inf, float("nan"), 1e30]))
    for _ in range(2):
        dims = shape()
        case("atan2(y0, x)", torch.atan2, y0=normal(dims), x=normal(dims))
        case("mod(a, b)", torch.remainder, a=normal(dims, 9), b=normal(dims) + 3)
        case("rem(a, b)", torch.fmod, a=normal(dims, 9), b=normal(dims) - 3)
        case("logaddexp(a, b)", torch.logaddexp, a=normal(dims, 5), b=normal(dims, 5))
        case("maximum(a, b)", torch.maximum, a=whole(dims, -1, 1).float(), b=whole(dims, -1, 1).float())
        case("minimum(a, b)", torch.minimum, a=whole(dims, -1, 1).float(), b=whole(dims, -1, 1).float())
        case("where(c, a, b)", torch.where, c=torch.rand(dims) < 0.5, a=normal(dims), b=normal(dims))
    case("logaddexp(a, b)", torch.logaddexp, a=[1e4, -1e4, 0.0, 88.0], b=[-1e4, -1e4, 1e4, 89.0])
    case("atan2(y0, x)", torch.atan2, y0=[1.0, -1.0, 0.0, 0.0, 1e10, -1e-10], x=[0.0, 0.0, 2.0, -2.0, 1e-10, -1e10])
    a, b = whole([40], -100, 100), whole([40], -9, 9)
    b[b == 0] = 5
    case("mod(a, b)", torch.remainder, a=a, b=b)
    case("rem(a, b)", torch.fmod, a=a, b=b)
    for name in ["bitwise_and", "bitwise_or", "bitwise_xor"]:
        case(f"{name}(a, b)", getattr(torch, name), a=a, b=b)
    case("bitwise_not(a)", torch.bitwise_not, a=a)
    count = whole([40], 0, 20)
    case("bitwise_left_shift(a, n)", torch.bitwise_left_shift, a=a, n=count)
    case("bitwise_right_shift(a, n)", torch.bitwise_right_shift, a=a, n=count)
    case("logical_xor(p, q)", torch.logical_xor, p=torch.rand(9) < 0.5, q=torch.rand(9) < 0.5)


def activations():
    far = [0.0, 1e-6, -1e-6, 20.0, -20.0, 90.0, -90.0, 1e4, -1e4]
    unary("silu", F.silu, -5, 5, far)
    unary("mish", F.mish, -5, 5, far)
    unary("softsign", F.softsign, -5, 5, far)
    unary("gelu", F.gelu, -5, 5, far)
    unary("gelu", lambda x: F.gelu(x, approximate="tanh"), -5, 5, far, ", approximate=tanh")
    for alpha in [1.0, 0.3]:
        unary("elu", lambda x: F.elu(x, alpha), -5, 5, far, f", alpha={alpha}")
        unary("celu", lambda x: F.celu(x, alpha), -5, 5, far, f", alpha={alpha}")
    unary("selu", F.selu, -5, 5, far)
    unary("relu6", F.relu6, -5, 9, far + [6.0])
    # PyTorch's threshold is part of its definition; in f64 it is far enough out at 40.
    for beta in [1.0, 2.5]:
        unary("softplus", lambda x: F.softplus(x, beta, 40), -5, 5, far, f", beta={beta}")
    unary("log_sigmoid", F.logsigmoid, -5, 5, far)
    unary("leaky_relu", lambda x: F.leaky_relu(x, 0.2), -5, 5, far, ", negative_slope=0.2")
    unary("hard_sigmoid", F.hardsigmoid, -5, 5, far + [-3.0, 3.0])
    unary("hard_swish", F.hardswish, -5, 5, far)
    unary("hard_tanh", lambda x: F.hardtanh(x, -0.5, 2), -5, 5, far + [-0.5, 2.0], ", min=-0.5, max=2")
    unary("thresholded_relu", lambda x: F.threshold(x, 0.7, 0), -5, 5, far, ", alpha=0.7")
    for dims, weight in [([2, 3, 4], [3]), ([4, 5], [1]), ([5, 2, 2, 2], [2])]:
        case("prelu(x, w)", F.prelu, x=normal(dims), w=normal(weight))
    for dims, axis in [([6], 0), ([3, 4, 5], 1), ([2, 8], -1)]:
        case(f"glu(x, axis={axis})", lambda x: F.glu(x, axis), x=normal(dims))
    dims = shape()
    case("swiglu(g, u)", lambda g, u: F.silu(g) * u, g=normal(dims), u=normal(dims))
    case("geglu(g, u)", lambda g, u: F.gelu(g) * u, g=normal(dims), u=normal(dims))


def arranging():
    for _ in range(3):
        dims = shape()
        rank, axis = len(dims), axis_of(dims)
        parts = {f"p{i}": normal(dims) for i in range(3)}
        case(f"stack(p0, p1, p2, axis={axis})", lambda *p: torch.stack(p, axis), **parts)
        case(f"concat(p0, p1, p2, axis={axis})", lambda *p: torch.cat(p, axis), **parts)
        repeats = [random.randint(1, 3) for _ in dims]
        case(f"tile(x, repeats={repeats})", lambda x: x.tile(repeats), x=normal(dims))
        case(f"repeat_interleave(x, repeats=3, axis={axis})", lambda x: x.repeat_interleave(3, axis), x=normal(dims))
        axes = random.sample(range(rank), random.randint(1, rank))
        case(f"reverse(x, axes={axes})", lambda x: x.flip(axes), x=normal(dims))
        case(f"flatten(x, start_axis={axis % rank})", lambda x: x.flatten(axis % rank), x=normal(dims))
        case(f"unsqueeze(x, axes=[{axis}])", lambda x: x.unsqueeze(axis), x=normal(dims))
        sizes = [2, 1, 4]
        cut = dims[:axis % rank] + [7] + dims[axis % rank + 1:]
        index = random.randrange(3)
        case(f"split(x, sizes={sizes}, index={index}, axis={axis})", lambda x: x.split(sizes, axis)[index], x=normal(cut))
        matrix, diagonal = shape(2, 3), random.randint(-3, 3)
        case(f"tril(x, diagonal={diagonal})", lambda x: x.tril(diagonal), x=normal(matrix))
        case(f"triu(x, diagonal={diagonal})", lambda x: x.triu(diagonal), x=normal(matrix))
    case("squeeze(x)", torch.squeeze, x=normal([1, 3, 1, 2]))
    case("squeeze(x, axes=[2])", lambda x: x.squeeze(2), x=normal([1, 3, 1, 2]))
    for mode, op in [("replicate", "pad_edge"), ("reflect", "pad_reflect")]:
        case(f"{op}(x, low=[0,0,2], high=[0,0,3])", lambda x: F.pad(x, (2, 3), mode), x=normal([2, 1, 4]))
        case(f"{op}(x, low=[0,0,1,0], high=[0,0,2,4])", lambda x: F.pad(x, (0, 4, 1, 2), mode), x=normal([1, 2, 3, 5]))
    case("pad(x, low=[1,0], high=[0,2], value=0.5)", lambda x: F.pad(x, (0, 2, 1, 0), value=0.5), x=normal([2, 3]))


def lookups():
    for dims, picks, axis in [([5], [7], 0), ([3, 6], [2, 4], 1), ([4, 3, 2], [6, 2, 2], 0), ([3, 4], [3, 1], -1)]:
        indices = whole(picks, 0, dims[axis] - 1)
        case(f"gather_elements(x, i, axis={axis})", lambda x, i: x.gather(axis, i.long()), x=normal(dims), i=indices)
        flat = whole([4], 0, dims[axis] - 1)
        case(f"gather(x, i, axis={axis})", lambda x, i: x.index_select(axis, i.long()), x=normal(dims), i=flat)
    for dims, picks in [([3, 4], [5, 2]), ([3, 3, 5], [2, 3, 2]), ([4, 2], [3, 1])]:
        indices = whole(picks, 0, min(dims[:picks[-1]]) - 1)
        case("gather_nd(x, i)", lambda x, i: x[tuple(i.long().unbind(-1))], x=normal(dims), i=indices)
    case("dynamic_slice(x, s, sizes=[2,3])", lambda x, s: x[1:3, 2:5], x=normal([4, 6]), s=torch.tensor([1, 2]))
    case("dynamic_slice(x, s, sizes=[2,3])", lambda x, s: x[2:4, 0:3], x=normal([4, 6]), s=torch.tensor([9, -4]))

    def updated(x, u, s):
        window = torch.zeros_like(x, dtype=torch.bool)
        window[1:3, 3:6] = True
        return torch.where(window, F.pad(u, (3, 0, 1, 1)), x)

    case("dynamic_update_slice(x, u, s)", updated, x=normal([4, 6]), u=normal([2, 3]), s=torch.tensor([1, 5]))
    one_hot = lambda i: F.one_hot(i.long(), 5).double()
    case("one_hot(i, classes=5)", one_hot, i=whole([2, 3], 0, 4))
    case("one_hot(i, classes=5, axis=0)", lambda i: one_hot(i).movedim(-1, 0), i=whole([2, 3], 0, 4))
    case("scatter_add(i, u, size=4)", lambda i, u: torch.zeros(4, 3).double().index_add(0, i.long(), u), i=whole([6], 0, 3),
         u=normal([6, 3]))


def resizes():
    for mode, text in [("nearest", "nearest"), ("nearest-exact", "nearest_exact"), ("linear", "linear")]:
        for size, to in [(5, 10), (7, 3), (4, 9), (1, 3), (6, 1)]:
            call = f"resize(x, axes=[2], sizes=[{to}], mode={text})"
            case(call, lambda x: F.interpolate(x, size=to, mode=mode), x=normal([1, 2, size]))
    for size, to in [([3, 5], [6, 7]), ([6, 4], [5, 8])]:
        for corners in [False, True]:
            call = f"resize(x, axes=[2,3], sizes={to}, mode=linear, align_corners={str(corners).lower()})"
            case(call, lambda x: F.interpolate(x, size=to, mode="bilinear", align_corners=corners), x=normal([1, 2] + size))
        case(f"resize(x, axes=[2,3], sizes={to})", lambda x: F.interpolate(x, size=to), x=normal([1, 2] + size))
    case("resize(x, axes=[2,3,4], sizes=[3,4,2], mode=linear)", lambda x: F.interpolate(x, size=[3, 4, 2], mode="trilinear"),
         x=normal([1, 1, 2, 3, 3]))
    case("resize(x, axes=[2], sizes=[40], mode=linear)", lambda x: F.interpolate(x, size=40, mode="linear"), x=normal([1, 1, 3]))


def statistics():
    for _ in range(3):
        dims = [d + 1 for d in shape()]
        axes = sorted(random.sample(range(len(dims)), random.randint(1, len(dims))))
        keep = random.random() < 0.5
        attrs = f"axes={axes}, keep={str(keep).lower()}"
        correction = random.choice([0, 1])
        case(f"variance(x, {attrs}, correction={correction})", lambda x: x.var(axes, correction=correction, keepdim=keep),
             x=normal(dims) + 100)
        case(f"std(x, {attrs}, correction={correction})", lambda x: x.std(axes, correction=correction, keepdim=keep), x=normal(dims))
        case(f"log_sum_exp(x, {attrs})", lambda x: x.logsumexp(axes, keep), x=normal(dims, 9))
        case(f"sum(x, {attrs})", lambda x: x.sum(axes, keep), x=normal(dims))
        case(f"mean(x, {attrs})", lambda x: x.mean(axes, keep), x=normal(dims))
        tied = whole(dims, -1, 1).float()
        case(f"max(x, {attrs})", lambda x: x.amax(axes, keep), x=tied)
        case(f"min(x, {attrs})", lambda x: x.amin(axes, keep), x=tied)
        case(f"l1_norm(x, {attrs})", lambda x: torch.linalg.vector_norm(x, 1, axes, keep), x=tied)
        case(f"l2_norm(x, {attrs})", lambda x: torch.linalg.vector_norm(x, 2, axes, keep), x=normal(dims))
        mask = torch.rand(dims) < 0.6
        case(f"any(x, {attrs})", lambda x: x.to(torch.uint8).amax(axes, keep).bool(), x=mask)
        case(f"all(x, {attrs})", lambda x: x.to(torch.uint8).amin(axes, keep).bool(), x=mask)
        axis = axis_of(dims)
        case(f"argmin(x, axis={axis})", lambda x: x.argmin(axis).int(), x=normal(dims))
        case(f"argmax(x, axis={axis})", lambda x: x.argmax(axis).int(), x=normal(dims))
        case(f"prod(x, axes=[{axis}])", lambda x: x.prod(axis), x=normal(dims))
        case(f"cumsum(x, axis={axis})", lambda x: x.cumsum(axis), x=normal(dims))
    case("prod(x, axes=[1])", lambda x: x.prod(1), x=[[1.0, 2, 0, 4], [0.0, 3, 0, 1], [2.0, -1, 3, 0.5]])
    case("prod(x)", torch.prod, x=between([70], 0.8, 1.2))
    case("l2_norm(x, axes=[1])", lambda x: torch.linalg.vector_norm(x, 2, 1), x=[[0.0, 0], [3e30, -4e30], [3e-30, 4e-30]])
    case("std(x, axes=[1])", lambda x: x.std(1), x=[[2.0, 2, 2], [1.0, 2, 4]])
    case("log_sum_exp(x, axes=[1])", lambda x: x.logsumexp(1), x=[[1e4, 9.9e3, -1e4], [-1e4, -1e4, -1e4], [-inf, 2.0, 3.0]])
    case("cumsum(x)", lambda x: x.cumsum(0), x=normal([70]))
    case("cumsum(x, reverse=true)", lambda x: x.flip(0).cumsum(0).flip(0), x=normal([11]))
    case("cumsum(x, axis=0, exclusive=true)", lambda x: x.cumsum(0) - x, x=normal([11, 2]))
    case("cumsum(x)", lambda x: x.cumsum(1).int(), x=whole([2, 9], -50, 50))
    for axis in [0, 1, -1]:
        case(f"softmax(x, axis={axis})", lambda x: x.softmax(axis), x=normal([3, 4, 5], 5))
        case(f"log_softmax(x, axis={axis})", lambda x: x.log_softmax(axis), x=normal([3, 4, 5], 5))
    case("log_softmax(x)", lambda x: x.log_softmax(-1), x=[[1e4, -1e4, 0.0], [0.0, 88.0, 89.0]])
    case("rms_norm(x, w)", lambda x, w: F.rms_norm(x, [5], w, eps=1e-5), x=normal([3, 5]), w=normal([5]))


def losses():
    for reduction in ["mean", "sum", "none"]:
        r = dict(reduction=reduction)
        dims = shape()
        pair = lambda: dict(x=normal(dims), t=normal(dims))
        case(f"mse(x, t, reduction={reduction})", lambda x, t: F.mse_loss(x, t, **r), **pair())
        case(f"l1(x, t, reduction={reduction})", lambda x, t: F.l1_loss(x, t, **r), **pair())
        delta = random.choice([0.5, 1.0, 2.0])
        case(f"huber(x, t, delta={delta}, reduction={reduction})", lambda x, t: F.huber_loss(x, t, delta=delta, **r), **pair())
        beta = random.choice([0.0, 0.5, 2.0])
        case(f"smooth_l1(x, t, beta={beta}, reduction={reduction})", lambda x, t: F.smooth_l1_loss(x, t, beta=beta, **r), **pair())
        signs = torch.sign(normal(dims))
        case(f"hinge_embedding(x, fixed, margin=1.5, reduction={reduction})",
             lambda x, t: F.hinge_embedding_loss(x, t, margin=1.5, **r), x=normal(dims), fixed=signs)
        target = torch.rand(dims)
        target.flatten()[0] = 0
        case(f"kl_div(x, fixed, reduction={reduction})", lambda x, t: F.kl_div(x, t, **r), x=normal(dims) - 3, fixed=target)
        case(f"kl_div(x, t, reduction={reduction}, log_target=true)", lambda x, t: F.kl_div(x, t, log_target=True, **r), **pair())
        case(f"binary_cross_entropy_with_logits(x, t, reduction={reduction})",
             lambda x, t: F.binary_cross_entropy_with_logits(x, t, **r), x=normal(dims), t=torch.rand(dims))
        case(f"binary_cross_entropy_with_logits(x, t, fixed_w, fixed_p, reduction={reduction})",
             lambda x, t, w, p: F.binary_cross_entropy_with_logits(x, t, w, pos_weight=p, **r), x=normal([3, 4]),
             t=torch.rand([3, 4]), fixed_w=torch.rand([3, 1]), fixed_p=torch.rand([4]) * 3)
        for extra in [{}, dict(ignore_index=2), dict(label_smoothing=0.1), dict(ignore_index=0, label_smoothing=0.3)]:
            attrs = "".join(f", {k}={v}" for k, v in extra.items())
            for dims, axis in [([6, 4], 1), ([2, 4, 3], 1), ([4], 0)]:
                rows = dims[:axis] + dims[axis + 1:]
                labels, weight = whole(rows, 0, 3), torch.rand([4]) + 0.1
                if reduction == "mean" and dims == [4]:
                    labels[...] = 3  # the mean over rows that are all ignored is undefined
                case(f"cross_entropy(x, t, axis={axis}, reduction={reduction}{attrs})",
                     lambda x, t: F.cross_entropy(x, t.long(), **r, **extra), x=normal(dims), t=labels)
                case(f"cross_entropy(x, t, fixed_w, axis={axis}, reduction={reduction}{attrs})",
                     lambda x, t, w: F.cross_entropy(x, t.long(), w, **r, **extra), x=normal(dims), t=labels, fixed_w=weight)
        for extra in [{}, dict(label_smoothing=0.2)]:
            attrs = "".join(f", {k}={v}" for k, v in extra.items())
            for dims in [[3, 4], [2, 4, 3]]:
                case(f"cross_entropy(x, t, axis=1, reduction={reduction}{attrs})",
                     lambda x, t: F.cross_entropy(x, t, **r, **extra), x=normal(dims), t=torch.rand(dims))
                case(f"cross_entropy(x, t, fixed_w, axis=1, reduction={reduction}{attrs})",
                     lambda x, t, w: F.cross_entropy(x, t, w, **r, **extra), x=normal(dims), t=torch.rand(dims),
                     fixed_w=torch.rand([4]))
        case(f"nll(x, t, axis=1, reduction={reduction})", lambda x, t: F.nll_loss(x, t.long(), **r), x=normal([5, 4]),
             t=whole([5], 0, 3))
        case(f"nll(x, t, fixed_w, axis=1, ignore_index=1, reduction={reduction})",
             lambda x, t, w: F.nll_loss(x, t.long(), w, ignore_index=1, **r), x=normal([2, 4, 3]), t=whole([2, 3], 0, 3),
             fixed_w=torch.rand([4]))
    case("kl_div(x, fixed, reduction=batchmean)", lambda x, t: F.kl_div(x, t, reduction="batchmean"), x=normal([3, 4]),
         fixed=torch.rand([3, 4]))
    far = [[1e4, -1e4, 0.0, 5.0], [-90.0, 90.0, 89.0, -inf], [30.0, -30.0, 1e-6, 0.0]]
    case("cross_entropy(x, t, reduction=none)", lambda x, t: F.cross_entropy(x, t.long(), reduction="none"), x=far,
         t=torch.tensor([1, 2, 0]))
    ends = [1e4, -1e4, 90.0, -90.0, 20.0, -20.0, 0.0]
    for target in [0.0, 1.0]:
        case("binary_cross_entropy_with_logits(x, t, reduction=none)",
             lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"), x=ends, t=[target] * len(ends))
    case("huber(x, t, reduction=none)", lambda x, t: F.huber_loss(x, t, reduction="none"), x=[1e25, -1e25, 1.0, 0.0], t=[0.0] * 4)


for family in [functions, activations, arranging, lookups, resizes, statistics, losses]:
    family()
save("ops_pytorch")
