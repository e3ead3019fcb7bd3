# SPDX-License-Identifier: MIT
# What the scripts that write ops_pytorch*.safetensors share: calls of ops on drawn shapes, attributes and values, and what
# PyTorch computes from them in f64: results and the gradients of sum(dy * y). The file holds the graphs as text (metadata
# "graphs") and one tensor of all numbers in the order in which the graphs need them: the inputs, y, and for a float y dy (1 for a
# scalar) and the gradient of each float input whose name does not begin with "fixed". Integers and bools are numbers as well.
import pathlib
import random

import torch
from safetensors.torch import save_file

random.seed(7)
torch.manual_seed(7)
graphs, numbers = [], []
dtype_names = {torch.float64: "f32", torch.int32: "i32", torch.bool: "bool", torch.uint8: "u8"}


def emit(tensor):
    numbers.extend(tensor.detach().to(torch.float64).flatten().tolist())


def case(call, function, **inputs):
    """call: the op in the text form; function: the same in PyTorch, of the inputs in their order."""
    leaves = {}
    for name, value in inputs.items():
        value = torch.as_tensor(value)
        if value.is_floating_point():
            value = value.float().double()  # a number that f32 has
            value.requires_grad_(not name.startswith("fixed"))
        elif value.dtype == torch.int64:
            value = value.int()
        leaves[name] = value
    y = function(*leaves.values())
    lines = [f"{n} = input {dtype_names[v.dtype]}{list(v.shape)}" for n, v in leaves.items()]
    graphs.append(f"graph case{len(graphs)} {{\n  " + "\n  ".join(lines + [f"y = {call}", "output y"]) + "\n}\n")
    for value in leaves.values():
        emit(value)
    emit(y)
    if not y.is_floating_point():
        return
    dy = torch.randn(y.shape).float().double() if y.dim() > 0 else torch.tensor(1.0).double()
    emit(dy)
    if y.requires_grad:
        y.backward(dy)
    for name, value in leaves.items():
        if value.requires_grad:
            emit(value.grad if value.grad is not None else torch.zeros_like(value))


def shape(low=1, high=3):
    return [random.choice([1, 2, 3, 4, 5]) for _ in range(random.randint(low, high))]


def normal(dims, scale=2.0):
    return torch.randn(dims) * scale


def save(name):
    here = pathlib.Path(__file__).parent
    save_file({"values": torch.tensor(numbers, dtype=torch.float64).float()}, here / f"{name}.safetensors",
              {"graphs": "".join(graphs)})
    print(f"{len(graphs)} cases, {len(numbers)} numbers")
