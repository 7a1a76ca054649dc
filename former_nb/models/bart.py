"""What BART and Marian do differently: a number for each token on the logits, a padding token of
their own, and sometimes a matrix for each use of the tokens (Lewis et al. 2020)."""

import torch
from torch import nn

from ..attention.masks import padding_mask
from ..base.guards import check_ids
from .build import encoder_decoder_parts
from .config import TransformerConfig
from .savable import EncoderDecoder

__all__ = ["BartEncoderDecoder"]


class BartEncoderDecoder(EncoderDecoder):
    "An `EncoderDecoder` of one vocabulary that holds BART's or Marian's weights."

    def __init__(
        self,
        config: TransformerConfig,  # of both sides
        tied: bool = True,  # one matrix embeds both sides and gives the logits
    ):
        super().__init__(**encoder_decoder_parts(config))
        self.config = config
        self.pad = config.pad_token_id
        if not tied:
            size = config.vocab_size, config.d_model
            self.src_embed.tokens = nn.Embedding(*size)
            self.head.weight = nn.Parameter(torch.empty(size))
            for weight in [self.src_embed.tokens.weight, self.head.weight]:
                nn.init.normal_(weight, std=config.d_model**-0.5)
        if config.logits_bias:
            self.head.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def encode(self, src: torch.Tensor) -> torch.Tensor:  # as for `EncoderDecoder`
        "Read the source, each token in the light of all others."
        check_ids("src", src, self.config.vocab_size)
        positions = torch.arange(src.shape[1], device=src.device)
        x = self.src_embed(src, positions)
        return self.encoder(x, padding_mask(src, self.pad), positions=positions)

    def forward(self, src: torch.Tensor, tgt: torch.Tensor) -> torch.Tensor:
        "Logits (B, T, vocab_size), as for `EncoderDecoder`."
        return self.decode(tgt, self.encode(src), padding_mask(src, self.pad))
