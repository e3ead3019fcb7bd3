# SPDX-License-Identifier: MIT
# Writes transformer_layer_*.safetensors: small torch.nn.TransformerEncoderLayers, their results and gradients in f64. Only needed
# when the cases change: python3 transformer_layer.py (pip install torch safetensors).
import pathlib

import torch
from safetensors.torch import save_file

torch.manual_seed(3)
for name, norm_first, activation in [("post", False, "relu"), ("pre", True, "gelu")]:
    layer = torch.nn.TransformerEncoderLayer(12, 3, 20, dropout=0, activation=activation, batch_first=True, norm_first=norm_first)
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(torch.randn(p.shape) * 0.1)  # no bias stays 0, no norm stays 1
    layer.double().train()
    x, dy = torch.randn(2, 5, 12).double(), torch.randn(2, 5, 12).double()
    x.requires_grad_()
    mask = torch.nn.Transformer.generate_square_subsequent_mask(5).double()
    y = layer(x, src_mask=mask, is_causal=True)
    (y * dy).sum().backward()
    saved = {"x": x, "dy": dy, "expected.y": y, "expected.d_x": x.grad}
    for key, p in layer.named_parameters():
        saved[key] = p
        saved["expected.d_" + key] = p.grad
    saved = {key: value.detach().float().contiguous() if not key.startswith("expected.") else value.detach().contiguous()
             for key, value in saved.items()}
    save_file(saved, pathlib.Path(__file__).parent / f"transformer_layer_{name}.safetensors")
