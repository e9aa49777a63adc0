"""Runs in an environment with transformers, for hugging_face_test.py.

usage: hugging_face_models.py make ROOT       make a folder of each model in ROOT, with its logits
       hugging_face_models.py compare ROOT    compare NAME.saved with NAME for each model
"""
import json
import os
import pathlib
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import torch  # noqa: E402
import transformers as hf  # noqa: E402

TOKENS = [3, 14, 15, 9, 2, 6, 5, 35, 8, 9, 7, 0]
LLAMA = dict(vocab_size=51, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32)
GPT2 = dict(vocab_size=51, n_embd=32, n_layer=2, n_head=4, n_positions=32, attn_pdrop=0.0,
            embd_pdrop=0.0, resid_pdrop=0.0, bos_token_id=0, eos_token_id=0)
EXPERTS = dict(num_experts_per_tok=2)
# Name: class of the model, its configuration, type of the file.
MODELS = {
    "llama": (hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA), torch.float32),
    "llama-tied": (hf.LlamaForCausalLM,
                   hf.LlamaConfig(**LLAMA, tie_word_embeddings=True, rms_norm_eps=1e-3,
                                  rope_parameters={"rope_type": "default", "rope_theta": 100.0}),
                   torch.float32),
    "llama-biases": (hf.LlamaForCausalLM,
                     hf.LlamaConfig(**LLAMA, attention_bias=True, mlp_bias=True), torch.float32),
    "llama-bfloat16": (hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA), torch.bfloat16),
    "llama-float16": (hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA), torch.float16),
    "gpt2": (hf.GPT2LMHeadModel, hf.GPT2Config(**GPT2), torch.float32),
    "gpt2-exact-gelu": (hf.GPT2LMHeadModel, hf.GPT2Config(**GPT2, activation_function="gelu"),
                        torch.float32),
    "gpt2-untied": (hf.GPT2LMHeadModel, hf.GPT2Config(**GPT2, tie_word_embeddings=False, n_inner=40),
                    torch.float32),
    "gpt2-without-prefix": (hf.GPT2Model, hf.GPT2Config(**GPT2), torch.float32),
    "mistral": (hf.MistralForCausalLM, hf.MistralConfig(**LLAMA), torch.float32),
    "mixtral": (hf.MixtralForCausalLM, hf.MixtralConfig(**LLAMA, **EXPERTS, num_local_experts=4),
                torch.float32),
    "qwen2": (hf.Qwen2ForCausalLM, hf.Qwen2Config(**LLAMA), torch.float32),
    "qwen3": (hf.Qwen3ForCausalLM, hf.Qwen3Config(**LLAMA, head_dim=16), torch.float32),
    "qwen3-experts": (hf.Qwen3MoeForCausalLM,
                      hf.Qwen3MoeConfig(**LLAMA, **EXPERTS, head_dim=8, num_experts=4,
                                        moe_intermediate_size=24, norm_topk_prob=True),
                      torch.float32),
    "qwen3-experts-sparse": (hf.Qwen3MoeForCausalLM,
                             hf.Qwen3MoeConfig(**LLAMA, **EXPERTS, head_dim=8, num_experts=4,
                                               moe_intermediate_size=24, decoder_sparse_step=2),
                             torch.float32),
}


def logits(model):
    model.eval()
    tokens = torch.tensor([TOKENS])
    with torch.no_grad():
        if isinstance(model, hf.GPT2Model):
            return (model(tokens).last_hidden_state @ model.wte.weight.T)[0]
        return model(tokens).logits[0]


def make(root):
    for name, (kind, config, dtype) in MODELS.items():
        torch.manual_seed(5)
        model = kind(config)
        # Norms and biases get values that show if one is taken for another.
        with torch.no_grad():
            for key, value in model.named_parameters():
                value.normal_(1.0 if "norm" in key or "ln_" in key else 0.0, 0.2)
        model.to(dtype).save_pretrained(root / name)
        # Loaded again: `to` also rounds constants, which are not in the file.
        model = kind.from_pretrained(root / name, dtype=torch.float32)
        facts = {"tokens": TOKENS, "logits": logits(model).tolist()}
        (root / name / "logits.json").write_text(json.dumps(facts))


def compare(root):
    for name, (kind, _, _) in MODELS.items():
        saved, info = kind.from_pretrained(root / f"{name}.saved", output_loading_info=True)
        for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
            assert not info[what], (name, what, info[what])
        expected = kind.from_pretrained(root / name).state_dict()
        found = saved.state_dict()
        assert found.keys() == expected.keys(), name
        for key, value in expected.items():
            assert value.dtype == found[key].dtype, (name, key)
            same = torch.equal(value.contiguous().view(torch.uint8),
                               found[key].contiguous().view(torch.uint8))
            assert same, (name, key)


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"make": make, "compare": compare}[sys.argv[1]](pathlib.Path(sys.argv[2]))
