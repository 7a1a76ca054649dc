"""Every attention weight of a translation as a table, and what each token looks at for its like."""

import pandas as pd
import torch

from ..base.core import eval_mode
from ..base.guards import check_that, check_type
from ..data.text import BOS, EOS, encode_texts
from ..data.tokens import TextTokenizer
from ..models.encoder_decoder import EncoderDecoder
from ..models.pretrained import check_pair
from .recording import attention_table, record_attention

__all__ = [
    "record_translation",
    "align_translation",
]


def _labels(row, tokenizer):
    "What each token spells."
    return [{BOS: "<bos>", EOS: "<eos>"}.get(t) or tokenizer.decode([t]) or "<unk>" for t in row]


def record_translation(
    model: EncoderDecoder,  # of one vocabulary for both sides
    tokenizer: TextTokenizer,
    source: str,
    target: str,  # a translation of it, anybody's; one that is too long is cut
) -> pd.DataFrame:  # kind (encoder, decoder, cross), layer, head, tokens, their places, weight
    "Every attention weight of the model while it reads `source` and writes `target`."
    check_type("model", model, EncoderDecoder)
    check_pair(model, tokenizer)
    src, tgt = encode_texts([source, target], tokenizer)
    most = model.config.max_len
    check_that(len(src) <= most, "source", f"at most {most} tokens, two at the ends", len(src))
    tgt = tgt[:-1][: model.tgt_config.max_len]  # <eos> is written, never read
    both = [torch.tensor([row], device=model.head.weight.device) for row in (src, tgt)]
    with eval_mode(model), torch.no_grad(), record_attention(model) as weights:
        model(*both)
    return attention_table(model, weights, *(_labels(row, tokenizer) for row in (src, tgt)))


def align_translation(
    model: EncoderDecoder,  # of one vocabulary for both sides
    tokenizer: TextTokenizer,
    source: str,
    target: str,  # a translation of it, as for `record_translation`
    layer: int | None = None,  # of the decoder, from 1; one in the middle if left out
) -> list[tuple[int, int]]:  # places (in the target, in the source), from 0, without `<bos>`
    "For each target token the source token with the largest mean weight while it is written."
    table = record_translation(model, tokenizer, source, target)
    n = model.tgt_config.n_layers
    layer = (n + 1) // 2 if layer is None else layer
    check_that(layer in range(1, n + 1), "layer", f"a whole number from 1 to {n}", layer)
    cross = table[(table["kind"] == "cross") & (table["layer"] == layer)]
    ends = cross["key"].isin(["<bos>", "<eos>"])
    ends |= cross["query_place"] == cross["query_place"].max()  # the last row writes <eos>
    grid = cross[~ends].groupby(["query_place", "key_place"])["weight"].mean().unstack()
    return [] if grid.empty else [(row, place - 1) for row, place in grid.idxmax(axis=1).items()]
