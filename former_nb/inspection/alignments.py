"""Every attention weight of a translation as a table, and the source token that each aligns to."""

import pandas as pd
import torch

from ..base.core import eval_mode
from ..base.guards import check_that, check_type
from ..data.tokenization import encode_texts
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
    return [tokenizer.names.get(t) or tokenizer.decode([t]) or "<unk>" for t in row]


def record_translation(
    model: EncoderDecoder,  # of one vocabulary for both sides
    tokenizer: TextTokenizer,
    source: str,
    target: str,  # a translation of it, anybody's; one that is too long is cut
) -> pd.DataFrame:  # kind (encoder, decoder, cross), layer, head, tokens, their places, weight
    "Every attention weight of the model while it reads `source` and writes `target`."
    check_type("model", model, EncoderDecoder)
    check_pair(model, tokenizer)
    check_type("source", source, str)
    check_type("target", target, str)
    [src] = encode_texts([source], tokenizer)
    tgt = [*tokenizer.start, *tokenizer.encode(target)]  # its end is written, never read
    most = model.config.max_len
    check_that(len(src) <= most, "source", f"at most {most} tokens, two at the ends", len(src))
    tgt = tgt[: model.tgt_config.max_len]
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
) -> list[tuple[int, int]]:  # places (in the target, in the source), from 0, of tokens of the text
    "For each target token the source token with the largest mean weight while it is written."
    table = record_translation(model, tokenizer, source, target)
    n = model.tgt_config.n_layers
    layer = (n + 1) // 2 if layer is None else layer
    check_that(layer in range(1, n + 1), "layer", f"a whole number from 1 to {n}", layer)
    cross = table[(table["kind"] == "cross") & (table["layer"] == layer)]
    query, key = cross["query_place"], cross["key_place"]
    first = len(tokenizer.start) - 1  # the query that writes the first token of the target
    before = len(tokenizer.before)
    words = (query >= first) & (query < query.max())  # the last one writes the end
    words &= (key >= before) & (key <= key.max() - len(tokenizer.after))
    grid = cross[words].groupby(["query_place", "key_place"])["weight"].mean().unstack()
    if grid.empty:
        return []
    return [(row - first, place - before) for row, place in grid.idxmax(axis=1).items()]
