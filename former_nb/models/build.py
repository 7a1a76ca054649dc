"""From words to parts: what a configuration names, put together.

The models know no configuration. They are made of parts that are handed in: an embedding, a stack
of blocks, in each block attention, a network and two norms. This module says which part a word
stands for. `LanguageModel.from_config(TransformerConfig(...))` builds from it, and so do the
command line, saved folders and the readers of other people's weights.
"""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import psutil
import torch
from torch import nn

from ..attention.multi_head import MultiHeadAttention
from ..attention.positions import Rotary
from ..base.guards import LARGEST, check_choice, check_int, check_share, check_that, check_type
from .choices import ACTIVATIONS, NORMS, POSITIONS, find_part
from .config import BIASES, SIZES, TransformerConfig
from .encoder_decoder import DecoderBlock
from .initialization import NoRandomWeights, init_weights
from .layers import Block, Embedding, FeedForward, Stack
from .modern_decoder import GroupedQueryAttention, SwiGLU
from .parts import (
    CrossAttention,
    Decoder,
    EmbedNorm,
    FusedRMSNorm,
    ScaledEmbedding,
)
from .post_norm import PostNormBlock, PostNormDecoderBlock

__all__ = [
    "build_network",
    "build_norm",
    "build_positions",
    "build_block",
    "build_stack",
    "build_decoder",
    "build_embedding",
    "start_embedding",
    "language_model_parts",
    "classifier_parts",
    "encoder_decoder_parts",
    "sizes_of",
    "PARTS",
]


def check_memory(
    config: TransformerConfig,  # of a model that is to be built
) -> None:
    "Raise `ValueError` for a model that this machine's memory cannot hold, before any is taken."
    memory = psutil.virtual_memory().total  # bytes
    needed = 40_000 * config.n_layers  # the objects of the blocks
    if torch.get_default_device().type != "meta":  # where weights take none
        needed += 4 * config.n_parameters
    if needed > memory:
        sizes = ", ".join(f"{name} = {getattr(config, name):,}" for name in SIZES)
        raise ValueError(
            f"{sizes}: expected at most the {memory // 10**9:,} GB of this machine, "
            f"got a model of {needed // 10**9:,} GB"
        )


def build_attention(
    config: TransformerConfig,
) -> MultiHeadAttention:
    "The layer of attention of a block."
    if config.n_kv_heads is None and config.d_k is None:
        return MultiHeadAttention(config.d_model, config.n_heads)
    return GroupedQueryAttention(config.d_model, config.n_heads, config.n_kv_heads, config.d_k)


def build_network(
    d_model: int,  # width of input and output
    d_ff: int,  # units
    dropout: float = 0.0,  # probability that a unit is dropped
    activation: str = "gelu",  # a key of `ACTIVATIONS`
) -> FeedForward | SwiGLU:
    "A feed-forward network with biases."
    check_choice("activation", activation, ACTIVATIONS)
    part = find_part(ACTIVATIONS[activation].part)
    if ACTIVATIONS[activation].gated:
        return part(d_model, d_ff, dropout, bias=True)
    return FeedForward(d_model, d_ff, dropout, part)


def build_norm(
    config: TransformerConfig,
) -> nn.LayerNorm | FusedRMSNorm:
    "A norm of a block."
    return find_part(NORMS[config.norm])(config.d_model, config.norm_eps)


def build_positions(
    config: TransformerConfig,
    where: str,  # 'input', added to the embeddings, or 'attention', inside every layer
) -> nn.Module | None:  # None if the positions of this configuration act elsewhere
    "The positions that act at this place; on the input with the norm of BART, where there is one."
    positions = None
    if POSITIONS[config.positions].where == where:
        positions = POSITIONS[config.positions].build(config)
    if config.embed_norm and where == "input":
        return EmbedNorm(positions, build_norm(config))
    return positions


def build_block(
    config: TransformerConfig,
) -> Block:
    "A block, pre-norm or post-norm."
    attention = build_attention(config)
    ff = build_network(config.d_model, config.d_ff, config.dropout, config.activation)
    norms = build_norm(config), build_norm(config)
    kind = Block if config.norm_first else PostNormBlock
    return kind(attention, ff, *norms, config.dropout)


def build_decoder_block(
    config: TransformerConfig,
) -> DecoderBlock:
    "A block that also reads a memory, pre-norm or post-norm."
    attention = build_attention(config)
    ff = build_network(config.d_model, config.d_ff, config.dropout, config.activation)
    cross = CrossAttention(config.d_model, config.n_heads)  # of heads of the usual width
    norms = build_norm(config), build_norm(config), build_norm(config)
    kind = DecoderBlock if config.norm_first else PostNormDecoderBlock
    return kind(attention, cross, ff, *norms, config.dropout)


def build_stack(
    config: TransformerConfig,
    kind: type[Stack] = Stack,
    block: Callable = build_block,  # makes one from `config`
) -> Stack:  # with the weights that `init_weights` gives
    "`n_layers` blocks, each with weights of its own, and a last norm if they are pre-norm."
    blocks = [block(config) for _ in range(config.n_layers)]
    norm = build_norm(config) if config.norm_first else nn.Identity()
    stack = kind(blocks, norm, build_positions(config, "attention"))
    remove_biases(stack, config.bias)
    init_weights(stack, config.n_layers)
    return stack


def build_decoder(
    config: TransformerConfig,
) -> Decoder:
    "As `build_stack`, of blocks that also read a memory."
    decoder = build_stack(config, Decoder, build_decoder_block)
    assert isinstance(decoder, Decoder)
    return decoder


def build_embedding(
    config: TransformerConfig,
    dropout: float | None = None,  # that of `config` if left out
    std: float = 0.02,  # as for `ScaledEmbedding`
    scale: float | None = None,  # as for `ScaledEmbedding`; None for an `Embedding`
) -> Embedding:
    "Vectors for tokens, with positions if they act there. Raises as `check_memory`."
    check_memory(config)
    dropout = config.dropout if dropout is None else dropout
    with NoRandomWeights():
        sizes = config.vocab_size, config.d_model, None, dropout
        embed = Embedding(*sizes) if scale is None else ScaledEmbedding(*sizes, std, scale)
    start_embedding(embed, config, std)
    return embed


def start_embedding(
    embed: Embedding,  # changed in place
    config: TransformerConfig,
    std: float = 0.02,  # as for `ScaledEmbedding`
) -> None:
    "Positions, and first weights in the order of version 0.2: a seed gives the model that it gave."
    nn.init.normal_(embed.tokens.weight)
    embed.position_embedding = build_positions(config, "input")
    nn.init.normal_(embed.tokens.weight, std=std)


def remove_biases(
    model: nn.Module,  # changed in place
    bias: str,  # which linear layers keep theirs, a key of `BIASES`
) -> None:
    "Take the biases of linear layers that have none in other people's models."
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and name.endswith(BIASES[bias]):
            module.register_parameter("bias", None)


def language_model_parts(
    config: TransformerConfig,
) -> dict[str, Any]:  # the arguments of `LanguageModel`
    "Embedding, stack and, unless the embeddings give the logits, a head."
    embed = build_embedding(config)
    stack = build_stack(config)
    head = None
    if not config.tied_head:
        head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        nn.init.normal_(head.weight, std=0.02)
    return dict(embed=embed, stack=stack, head=head)


def classifier_parts(
    config: TransformerConfig,
    n_classes: int,  # 2 or more
    embed_dropout: float = 0.0,  # probability that a number of an embedding is dropped
) -> dict[str, Any]:  # the arguments of `Classifier`
    "Embedding and stack, and the sizes of the head."
    check_int("n_classes", n_classes, 2)
    check_share("embed_dropout", embed_dropout)
    embed = build_embedding(config, embed_dropout)
    return dict(embed=embed, stack=build_stack(config), d_model=config.d_model, n_classes=n_classes)


def encoder_decoder_parts(
    config: TransformerConfig,  # of both sides, or of the source alone
    tgt_config: TransformerConfig | None = None,  # of a target of another kind; same d_model
) -> dict[str, Any]:  # the arguments of `EncoderDecoder`
    "Two embeddings, of one matrix if there is one vocabulary, and two stacks."
    target = tgt_config or config
    check_type("tgt_config", target, TransformerConfig)
    same = target.d_model == config.d_model
    check_that(same, "tgt_config", f"d_model = {config.d_model}", target.d_model)
    unit = dict(std=config.d_model**-0.5, scale=config.d_model**0.5)  # rows of length 1, times √d
    if config.embed_norm:
        unit["scale"] = 1.0  # a norm would divide by it again
    embed = build_embedding(config, **unit)
    tgt_embed = build_embedding(target, **unit)
    if tgt_config is None:
        embed.tokens = tgt_embed.tokens  # one vocabulary, one matrix
    encoder = build_stack(config)
    return dict(embed=embed, encoder=encoder, decoder=build_decoder(target), tgt_embed=tgt_embed)


def sizes_of(
    model,  # a model of ours, also one made of parts by hand
) -> Any:  # with vocab_size, n_layers, max_len and positions, as `TransformerConfig` has them
    "The sizes that a decoding loop needs, of a translator's target. `TypeError` for others."
    config = getattr(model, "tgt_config", None) or getattr(model, "config", None)
    embed: Any = getattr(model, "tgt_embed", getattr(model, "embed", None))
    stack: Any = getattr(model, "decoder", getattr(model, "stack", None))
    if config is not None:
        if hasattr(stack, "blocks"):  # some may have been removed or added
            return replace(config, n_layers=len(stack.blocks))
        return config
    is_ours = isinstance(embed, Embedding) and isinstance(stack, Stack)
    check_that(is_ours, "model", "a `LanguageModel`", model, TypeError)
    added = embed.position_embedding
    positions = "rotary" if isinstance(stack.rotary, Rotary) else "alibi"
    max_len = LARGEST
    if added is not None:  # it has a row for each position
        positions = "learned"
        max_len = len(added.table)
    return SimpleNamespace(
        vocab_size=embed.tokens.num_embeddings,
        n_layers=len(stack.blocks),
        max_len=max_len,
        positions=positions,
    )


PARTS: dict[str, Callable[..., dict]] = {  # name of a class -> what makes its arguments
    "LanguageModel": language_model_parts,
    "Classifier": classifier_parts,
    "EncoderDecoder": encoder_decoder_parts,
}
