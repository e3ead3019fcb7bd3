# SPDX-License-Identifier: MIT
# Writes ops_pytorch_attention.safetensors (see pytorch_cases.py): attention as torch.nn.functional has it, with masks, shared key
# heads and positions, what that does not have (windows, soft caps) by the formula, and rotary positions as complex products.
import math

import torch
import torch.nn.functional as F
from pytorch_cases import case, normal, save

inf = float("inf")


def formula(q, k, v, mask=None, visible=None, scale=None, soft_cap=0.0):
    """softmax(scale q k^T + mask) v over what is visible; a query that sees nothing gives 0."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    s = q @ k.transpose(-1, -2) * (scale if scale is not None else 1 / math.sqrt(q.shape[-1]))
    if soft_cap:
        s = soft_cap * torch.tanh(s / soft_cap)
    if mask is not None:
        s = s + mask
    if visible is None:
        return torch.softmax(s, -1) @ v
    visible = visible.expand(s.shape)
    weights = torch.softmax(s.masked_fill(~visible, -1e300), -1)
    return torch.where(visible, weights, torch.zeros_like(weights)) @ v


def distances(queries, keys, position=0):
    """How far each key is ahead of each query."""
    return torch.arange(keys) - (torch.arange(queries)[:, None] + position)


def operands(batch, heads, kv_heads, queries, keys, depth, width):
    return {"q": normal([batch, heads, queries, depth], 1), "k": normal([batch, kv_heads, keys, depth], 1),
            "v": normal([batch, kv_heads, keys, width], 1)}


def plain():
    """head_dim and lengths at and around the sizes of tiles."""
    for depth, queries, keys in [(1, 1, 1), (3, 5, 7), (17, 33, 31), (64, 9, 10), (80, 2, 33), (128, 2, 3), (256, 2, 3)]:
        case("attention(q, k, v)", F.scaled_dot_product_attention, **operands(1, 2, 2, queries, keys, depth, depth))
        case("attention(q, k, v, causal=true)", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
             **operands(2, 1, 1, queries, keys, depth, depth))
    case("attention(q, k, v, scale=0.25)", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.25),
         **operands(1, 1, 1, 3, 4, 5, 9))
    for kv_heads in [1, 2, 6]:
        case("attention(q, k, v, causal=true)",
             lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
             **operands(2, 6, kv_heads, 9, 9, 4, 6))


def masks():
    for dims in [[5, 7], [2, 1, 1, 7], [1, 4, 5, 7], [2, 4, 5, 1]]:
        name = "mask" if dims[-1] > 1 else "fixed_mask"  # the same for all keys changes nothing: its gradient is rounding
        case(f"attention(q, k, v, {name})", lambda q, k, v, mask: formula(q, k, v, mask), **operands(2, 4, 2, 5, 7, 3, 2),
             **{name: normal(dims, 1)})
        visible = torch.rand(dims) < 0.6
        case("attention(q, k, v, mask)", lambda q, k, v, mask: formula(q, k, v, visible=mask), **operands(2, 4, 2, 5, 7, 3, 2),
             mask=visible)
    # Minus infinity hides keys; the second query sees none. Very low numbers are numbers.
    blocked = torch.tensor([[0.5, -inf, 1.0], [-inf, -inf, -inf], [-3.4e38, -3.4e38, -3.4e38]])
    case("attention(q, k, v, fixed_mask)",
         lambda q, k, v, mask: formula(q, k, v, mask.masked_fill(mask == -inf, 0), mask != -inf), **operands(1, 2, 1, 3, 3, 4, 4),
         fixed_mask=blocked)
    case("attention(q, k, v, mask, causal=true)", lambda q, k, v, mask: formula(q, k, v, mask, distances(6, 6) <= 0),
         **operands(1, 2, 2, 6, 6, 3, 3), mask=normal([6, 6], 1))


def windows():
    for queries, keys, window in [(9, 9, 3), (40, 70, 11), (70, 20, 1), (5, 5, 100)]:
        ahead = distances(queries, keys)
        case(f"attention(q, k, v, window={window})", lambda q, k, v: formula(q, k, v, visible=ahead.abs() < window),
             **operands(1, 2, 1, queries, keys, 4, 4))
        case(f"attention(q, k, v, causal=true, window={window})",
             lambda q, k, v: formula(q, k, v, visible=(ahead <= 0) & (ahead > -window)), **operands(1, 2, 1, queries, keys, 4, 4))
    for cap in [0.5, 20.0]:
        case(f"attention(q, k, v, causal=true, soft_cap={cap})",
             lambda q, k, v: formula(q, k, v, visible=distances(7, 9) <= 0, soft_cap=cap), **operands(1, 2, 2, 7, 9, 5, 3))
    case("attention(q, k, v, mask, soft_cap=1.5)", lambda q, k, v, mask: formula(q, k, v, mask, soft_cap=1.5),
         **operands(1, 2, 2, 3, 4, 5, 3), mask=normal([3, 4], 1))


def positions():
    """New queries against a cache whose keys behind them are not there yet."""
    for queries, position in [(1, 0), (1, 17), (3, 30), (2, 39)]:
        case("attention(q, k, v, position=position, causal=true)",
             lambda q, k, v, p: formula(q, k, v, visible=distances(queries, 40, int(p)) <= 0),
             **operands(2, 4, 2, queries, 40, 3, 3), position=torch.tensor(position))
    each = torch.tensor([0, 5, 39])
    case("attention(q, k, v, position=position, causal=true)",
         lambda q, k, v, p: formula(q, k, v, visible=torch.stack([distances(2, 40, int(n)) <= 0 for n in p])[:, None]),
         **operands(3, 2, 1, 2, 40, 3, 3), position=each)


def turned(x, positions, theta, layout, dims):
    pairs = dims // 2
    angles = positions[..., None].double() * theta ** (-torch.arange(pairs).double() / pairs)
    turn = torch.polar(torch.ones_like(angles), angles)
    part, rest = x[..., :dims], x[..., dims:]
    a, b = (part[..., :pairs], part[..., pairs:]) if layout == "halves" else (part[..., 0::2], part[..., 1::2])
    y = torch.complex(a, b) * turn
    parts = torch.cat([y.real, y.imag], -1) if layout == "halves" else torch.stack([y.real, y.imag], -1).flatten(-2)
    return torch.cat([parts, rest], -1)


def rotary():
    for layout in ["halves", "interleaved"]:
        case(f"rotary(x, layout={layout})", lambda x: turned(x, torch.arange(5), 10000, layout, 8), x=normal([2, 3, 5, 8]))
        case(f"rotary(x, layout={layout}, dims=6, theta=100, offset=3)",
             lambda x: turned(x, torch.arange(4) + 3, 100, layout, 6), x=normal([2, 4, 9]))
        case(f"rotary(x, position, layout={layout})", lambda x, p: turned(x, torch.arange(3) + p, 10000, layout, 4),
             x=normal([2, 1, 3, 4]), position=torch.tensor(7))
        case(f"rotary(x, position, layout={layout})",
             lambda x, p: turned(x, (torch.arange(3) + p[:, None])[:, None], 10000, layout, 4), x=normal([2, 2, 3, 4]),
             position=torch.tensor([7, 0]))


plain()
masks()
windows()
positions()
rotary()
save("ops_pytorch_attention")
