"Lesson 09: a classifier."

from functools import partial

import torch
from torch import nn

from ..grading.ask import Call, question
from .lesson_02 import attention
from .lesson_04 import padding_mask
from .lesson_05 import LearnedPositions
from .lesson_06 import Stack
from .lesson_07 import PAD, Embedding
from .parts import layer, spy


class Classifier(nn.Module):
    def __init__(self, embed, stack, d_model, n_classes):
        super().__init__()
        self.embed = embed
        self.stack = stack
        self.head = nn.Linear(d_model, n_classes)
        #! the head has a bias, because some classes come more often than others
        # ~ self.head = nn.Linear(d_model, n_classes, bias=False)
        #! the head makes a logit for each class, so it has n_classes outputs and not one
        # ~ self.head = nn.Linear(d_model, 1)

    def forward(self, tokens, attend=attention):  # (B, T) -> (B, n_classes)
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        #! there are as many positions as tokens in a text, tokens.shape[1]; shape[0] is the number
        #! of texts
        # ~ positions = torch.arange(tokens.shape[0], device=tokens.device)
        #! the first position is 0
        # ~ positions = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
        x = self.embed(tokens, positions)
        #! the embedding gets no positions, so a text means the same in any order of its words
        # ~ x = self.embed(tokens)
        x = self.stack(x, padding_mask(tokens), attend=attend, positions=positions)
        #! words attend to padding, so a text's answer depends on how long its neighbours are; give
        #! the stack padding_mask(tokens)
        # ~ x = self.stack(x, attend=attend, positions=positions)
        #! True in a mask means that a word may be attended to; yours hides the words and shows the
        #! padding
        # ~ x = self.stack(x, ~padding_mask(tokens), attend=attend, positions=positions)
        #! a mask needs axes for heads and queries, (B, 1, 1, T), to meet the scores; padding_mask
        #! makes them
        # ~ x = self.stack(x, tokens != PAD, attend=attend, positions=positions)
        #! a mask hides keys, the last axis; yours hides queries
        # ~ x = self.stack(x, padding_mask(tokens).mT, attend=attend, positions=positions)
        #! a classifier reads the whole text at once, so it isn't causal: each word may attend to
        #! later ones, too
        # ~ x = self.stack(x, padding_mask(tokens), True, attend, positions)
        #! attend isn't passed on to the stack
        # ~ x = self.stack(x, padding_mask(tokens), positions=positions)
        #! the positions aren't passed on to the stack, where rotary positions will need them
        # ~ x = self.stack(x, padding_mask(tokens), attend=attend)
        #! the stack isn't used: the words never meet
        # ~ pass
        real = (tokens != PAD)[..., None]  # (B, T, 1)
        #! the real tokens are those that aren't PAD; yours averages the padding
        # ~ real = (tokens == PAD)[..., None]
        #! only PAD is left out of the mean; BOS, EOS and UNK belong to the text
        # ~ real = (tokens > 3)[..., None]
        #! only PAD is left out of the mean; BOS and EOS belong to the text
        # ~ real = ((tokens != PAD) & (tokens != 1) & (tokens != 2))[..., None]
        #! an axis is missing: what is real is (B, T), and the vectors are (B, T, d_model), so
        #! append one of 1
        # ~ real = tokens != PAD
        mean = (x * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        #! padding has a part in the mean, so a text's answer depends on how long its neighbours are
        # ~ mean = x.mean(dim=1)
        #! padding is left out of the sum, so leave it out of the number, too: divide by how many
        #! tokens are real, not by T
        # ~ mean = (x * real).mean(dim=1)
        #! padding is left out of the number, so leave it out of the sum, too
        # ~ mean = x.sum(dim=1) / real.sum(dim=1).clamp(min=1)
        #! that is the sum, which grows with a text's length; divide by the number of real tokens
        # ~ mean = (x * real).sum(dim=1)
        #! a text of padding alone divides 0 by 0, and NaN spreads to all weights; at least 1:
        #! clamp(min=1)
        # ~ mean = (x * real).sum(dim=1) / real.sum(dim=1)
        #! the number of tokens is at least 1, clamp(min=1); yours adds 1 to each
        # ~ mean = (x * real).sum(dim=1) / (real.sum(dim=1) + 1)
        #! the number of tokens is that of each text; yours is that of the whole batch
        # ~ mean = (x * real).sum(dim=1) / real.sum().clamp(min=1)
        #! the first token alone is read, as in BERT; the mean of all real tokens is asked for
        # ~ mean = x[:, 0]
        #! the last position alone is read, which is padding in most texts; the mean of all real
        #! tokens is asked for
        # ~ mean = x[:, -1]
        #! the last real token alone is read, as in GPT; the mean of all real tokens is asked for
        # ~ last = (real[..., 0].sum(dim=1) - 1).clamp(min=0)
        #| mean = x[torch.arange(len(x)), last]
        #! that is the largest of each number; the mean is asked for
        # ~ mean = x.masked_fill(~real, float("-inf")).amax(dim=1)
        #! the mean runs over the words, dim=1; yours runs over the numbers of a vector
        # ~ mean = (x * real).mean(dim=-1)
        #! that is the median; the mean is asked for
        # ~ mean = x.masked_fill(~real, float("nan")).nanmedian(dim=1).values
        return self.head(mean)
        #! logits are asked for, since cross_entropy does the softmax itself
        # ~ return self.head(mean).softmax(dim=-1)
        #! logits are asked for, since cross_entropy does the log_softmax itself
        # ~ return self.head(mean).log_softmax(dim=-1)
        #! logits are asked for, since cross_entropy does the softmax itself; yours go through a
        #! sigmoid
        # ~ return self.head(mean).sigmoid()
        #! the head is missing, which makes a logit for each class of the mean
        # ~ return mean
        #! logits are asked for, one for each class; the likeliest class is taken elsewhere
        # ~ return self.head(mean).argmax(dim=-1)
        #! the words are averaged before the head, so each text has one vector; yours answers for
        #! each word
        # ~ return self.head(x)


# ---------------------------------------------------------------- questions


class Turning(nn.Module):
    "In place of rotary positions: adds the positions to the values."

    def forward(self, attend, positions):
        def attend_turned(q, k, v, mask=None, is_causal=False):
            where = positions[:, None] if positions.ndim == 1 else positions[:, None, :, None]
            return attend(q, k, v + 0.3 * where, mask, is_causal)

        return attend_turned


class Mixing(nn.Module):
    "The smallest block: attention with one head and one matrix."

    def __init__(self, d_model):
        super().__init__()
        self.w = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, mask=None, is_causal=False, attend=attention):
        k = self.w(x)[:, None]
        return x + attend(x[:, None], k, k, mask, is_causal)[:, 0]


def an_embedding(learned=True):
    return layer(Embedding, 11, 12, layer(LearnedPositions, 20, 12) if learned else None)


def a_stack(turning=False, n=2):
    blocks = [Mixing(12) for _ in range(n)]
    return layer(Stack, blocks, nn.LayerNorm(12), Turning() if turning else None)


def padded(draw, B, T):
    "Tokens with padding behind, at least one of each text real."
    tokens = draw.tokens(B, T)
    for row, n in zip(tokens, draw.tokens(B, low=1, high=T + 1).tolist()):
        row[n:] = PAD
    return tokens


@question("09", "Classifier")
def ask_classifier(draw):
    init = an_embedding(), a_stack(), 12, 3
    turning = an_embedding(False), a_stack(True), 12, 4
    texts = torch.tensor([[1, 5, 6, 2, 0, 0], [1, 9, 8, 7, 4, 2]])
    yield Call("two texts, one padded", (texts,), {}, init)
    yield Call("the first alone", (texts[:1, :4],), {}, init)
    yield Call("the first with more padding", (nn.functional.pad(texts[:1], (0, 5)),), {}, init)
    alone = torch.tensor([[1, 7, 2], [0, 0, 0]])
    yield Call("a text of padding alone", (alone,), {}, init)
    yield Call("padding inside a text", (torch.tensor([[1, 0, 5, 2], [1, 4, 4, 2]]),), {}, init)
    yield Call("one token", (torch.tensor([[4], [5], [6]]),), {}, init)
    yield Call("another attend", (texts, spy), {}, init)
    yield Call("another attend, by name", (texts,), dict(attend=spy), init)
    yield Call("an attend for each block", (texts, [spy, partial(spy, more=1.0)]), {}, init)
    yield Call("positions in the stack", (texts,), {}, turning)
    yield Call("positions in the stack, another attend", (texts, spy), {}, turning)
    yield Call("int32 tokens", (texts.int(),), {}, init)
    yield Call("in training mode, without dropout", (texts,), {}, init, True)
    yield Call("two classes", (texts,), {}, (an_embedding(), a_stack(), 12, 2))
    for _ in draw.rounds:
        tokens = padded(draw, draw.size(1, 5), draw.size(1, 9))
        yield Call(f"texts of chance {tuple(tokens.shape)}", (tokens,), {}, init)
