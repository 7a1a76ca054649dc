"""What you would use instead, in the sizes of ours. A peer that is not installed is left out."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

from former_nb.data.text import PAD
from former_nb.models.config import TransformerConfig


class TorchModel(nn.Module):
    "What PyTorch's stacks leave to their user: embeddings of tokens and of positions."

    def __init__(self, c: TransformerConfig, stack: nn.Module):
        super().__init__()
        self.embed = nn.Embedding(c.vocab_size, c.d_model)
        self.positions = nn.Embedding(c.max_len, c.d_model)
        for table in (self.embed, self.positions):  # tied to the logits, Normal(0, 1) gives
            nn.init.normal_(table.weight, std=0.02)  # gradients so small that a CPU is slow
        self.stack = stack

    def embed_tokens(self, tokens):
        return self.embed(tokens) + self.positions.weight[: tokens.shape[1]]


class TorchLanguageModel(TorchModel):
    "`nn.TransformerEncoder` with a causal mask, as PyTorch's tutorial has it."

    def __init__(self, c: TransformerConfig):
        super().__init__(c, torch_encoder(c))

    def forward(self, tokens):
        mask = causal(tokens)
        return self.stack(self.embed_tokens(tokens), mask, is_causal=True) @ self.embed.weight.T


class TorchClassifier(TorchModel):
    "`nn.TransformerEncoder` with a padding mask, and the mean over the real tokens."

    def __init__(self, c: TransformerConfig):
        super().__init__(c, torch_encoder(c))
        self.head = nn.Linear(c.d_model, 2)

    def forward(self, tokens):
        real = tokens != PAD
        x = self.stack(self.embed_tokens(tokens), src_key_padding_mask=~real) * real[..., None]
        return self.head(x.sum(1) / real.sum(1, keepdim=True))


class TorchTranslator(TorchModel):
    "`nn.Transformer` with its three masks and one embedding matrix."

    def __init__(self, c: TransformerConfig):
        kinds = dict(activation="gelu", batch_first=True, norm_first=True)
        sizes = c.d_model, c.n_heads, c.n_layers, c.n_layers, c.d_ff, c.dropout
        super().__init__(c, nn.Transformer(*sizes, **kinds))

    def forward(self, src, tgt):
        pads = dict.fromkeys(("src_key_padding_mask", "memory_key_padding_mask"), src == PAD)
        x, y = self.embed_tokens(src), self.embed_tokens(tgt)
        return self.stack(x, y, tgt_mask=causal(tgt), tgt_is_causal=True, **pads) @ (
            self.embed.weight.T
        )


def call_with(logits):
    "Logits of all positions, an attribute of what some models give, and all targets."
    return lambda m, x, targets: (getattr(found := logits(m, x), "logits", found), targets)


def causal(tokens):
    T = tokens.shape[1]
    return nn.Transformer.generate_square_subsequent_mask(T, device=tokens.device)


def torch_encoder(c):
    layer = nn.TransformerEncoderLayer(
        c.d_model, c.n_heads, c.d_ff, c.dropout, "gelu", batch_first=True, norm_first=True
    )
    norm = nn.LayerNorm(c.d_model)
    return nn.TransformerEncoder(layer, c.n_layers, norm, enable_nested_tensor=False)


def gpt2(c: TransformerConfig):
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=c.vocab_size, n_positions=c.max_len, n_embd=c.d_model,
            n_layer=c.n_layers, n_head=c.n_heads, n_inner=c.d_ff,
            resid_pdrop=c.dropout, embd_pdrop=c.dropout, attn_pdrop=c.dropout,
            bos_token_id=1, eos_token_id=2, pad_token_id=PAD,
        )
    )  # fmt: skip


def x_transformers(c: TransformerConfig):
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(
        dim=c.d_model, depth=c.n_layers, heads=c.n_heads, attn_dim_head=c.d_model // c.n_heads,
        ff_mult=c.d_ff / c.d_model, attn_flash=True,
    )  # fmt: skip
    sizes = dict(num_tokens=c.vocab_size, max_seq_len=c.max_len, tie_embedding=True)
    return TransformerWrapper(attn_layers=layers, **sizes)


def litgpt(c: TransformerConfig):
    "Blocks as GPT-2's, one after the other; its positions are rotary."
    from litgpt import GPT, Config

    sizes = dict(block_size=c.max_len, n_layer=c.n_layers, n_head=c.n_heads, n_embd=c.d_model)
    sizes |= dict(vocab_size=c.vocab_size, padded_vocab_size=c.vocab_size)
    kind = dict(intermediate_size=c.d_ff, parallel_residual=False, rotary_percentage=1.0)
    return GPT(Config(**sizes, **kind))


def bert(c: TransformerConfig):
    from transformers import BertConfig, BertForSequenceClassification

    return BertForSequenceClassification(
        BertConfig(
            vocab_size=c.vocab_size, hidden_size=c.d_model, num_hidden_layers=c.n_layers,
            num_attention_heads=c.n_heads, intermediate_size=c.d_ff,
            hidden_dropout_prob=c.dropout, attention_probs_dropout_prob=c.dropout,
            max_position_embeddings=c.max_len, pad_token_id=PAD, num_labels=2,
        )
    )  # fmt: skip


def translator_sizes(c: TransformerConfig) -> dict:
    "As Hugging Face's models of two stacks call them; no text is made to end."
    return dict(
        vocab_size=c.vocab_size, d_model=c.d_model, max_position_embeddings=c.max_len,
        encoder_layers=c.n_layers, decoder_layers=c.n_layers,
        encoder_attention_heads=c.n_heads, decoder_attention_heads=c.n_heads,
        encoder_ffn_dim=c.d_ff, decoder_ffn_dim=c.d_ff, dropout=c.dropout,
        pad_token_id=PAD, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        forced_eos_token_id=None,
    )  # fmt: skip


def bart(c: TransformerConfig):
    from transformers import BartConfig, BartForConditionalGeneration

    return BartForConditionalGeneration(BartConfig(**translator_sizes(c)))


def marian(c: TransformerConfig):
    "Sinusoidal positions, post-norm, one table for both languages and the logits."
    from transformers import MarianConfig, MarianMTModel

    return MarianMTModel(MarianConfig(**translator_sizes(c)))


def endless(model):
    """Let a model write on to `max_new_tokens`: no token ends a text.

    `min_new_tokens` would do that too, but it changes all logits at each step. It adds 12 % to the
    operations of GPT-2 with 10.8 M weights, 19 % to BART's with one beam and 8 % with four.
    """
    model.generation_config.eos_token_id = None
    return model


def write_with_x_transformers(c, prompt, n, device):
    "A function that writes n tokens greedily, keys and values kept."
    from x_transformers import AutoregressiveWrapper

    model = AutoregressiveWrapper(x_transformers(c)).to(device).eval()
    how = dict(temperature=0.0, cache_kv=True)
    return no_grad(lambda: model.generate(prompt, n, **how))


def write_with_litgpt(c, prompt, n, device):
    "The same; it writes one text at a time."
    from litgpt.generate.base import generate

    if len(prompt) > 1:
        raise ValueError("litgpt writes one text at a time")
    model = litgpt(c).to(device).eval()
    model.set_kv_cache(batch_size=1, device=device)

    def write():
        return generate(model, prompt[0], len(prompt[0]) + n, temperature=0.0)

    return no_grad(write)


def cross_entropy(logits, targets):
    "The loss as a peer's user would write it."
    return F.cross_entropy(logits.flatten(0, -2).float(), targets.flatten(), ignore_index=-100)


def no_grad(run):
    return torch.inference_mode()(run)


def sentence(error: BaseException) -> str:
    "The first line of what an error says, or the package that it misses."
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed"
    return (str(error) or type(error).__name__).splitlines()[0]


def available(makers: dict) -> dict:
    "What the makers make. A peer that is missing, or of another version, is named and left out."
    made = {}
    for name, make in makers.items():
        try:
            made[name] = make()
        except Exception as error:
            if name == "ours":
                raise
            print(f"  {name} is left out: {sentence(error)}", file=sys.stderr)
    return made


def that_run(runs: dict) -> dict:
    "Those whose first call goes well."
    return {name: runs[name] for name in available(runs)}
