# SPDX-License-Identifier: MIT
# Writes decoder_*.safetensors with Hugging Face's Llama: weights and tokens, and what that computes from them in f64: logits,
# the loss over shifted tokens and the norm of its gradient for each param. Only needed when a configuration changes:
# python3 decoder.py (pip install torch transformers safetensors). The sizes are those of tests/networks.h.
import pathlib

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

here = pathlib.Path(__file__).parent


def write(name, batch, seq, theta, **sizes):
    torch.manual_seed(7)
    config = LlamaConfig(
        max_position_embeddings=64,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": theta},
        attention_bias=False,
        mlp_bias=False,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="eager",
        **sizes,
    )
    model = LlamaForCausalLM(config).to(torch.float64)
    params = dict(model.named_parameters())
    with torch.no_grad():
        for key, value in params.items():
            # Far from the usual start, so that norms, softmax and gates leave their linear range; exact in f32.
            value.copy_((1 + 0.3 * torch.randn_like(value) if "norm" in key else 0.4 * torch.randn_like(value)).float())
    tokens = torch.randint(0, sizes["vocab_size"], (batch, seq))
    out = model(tokens, labels=tokens)
    out.loss.backward()
    contents = {key: value.detach().float() for key, value in params.items()}
    contents["tokens"] = tokens.int()
    contents["expected.logits"] = out.logits.detach()
    contents["expected.loss"] = out.loss.detach()
    for key, value in params.items():
        contents[f"expected.gradient_norm.{key}"] = value.grad.norm()
    save_file({key: value.contiguous() for key, value in contents.items()}, here / f"{name}.safetensors")


write("decoder_tied", 2, 7, 100000.0, vocab_size=29, hidden_size=24, intermediate_size=20, num_hidden_layers=2,
      num_attention_heads=6, num_key_value_heads=2, tie_word_embeddings=True)
write("decoder_untied", 1, 5, 10000.0, vocab_size=11, hidden_size=12, intermediate_size=17, num_hidden_layers=1,
      num_attention_heads=2, num_key_value_heads=2, tie_word_embeddings=False)
