"Lesson 16: translation."

import math
from collections import Counter

import torch
from torch import nn

from ..grading.ask import Call, question
from .lesson_04 import padding_mask
from .lesson_07 import BOS, EOS, PAD, UNK
from .lesson_13 import padded, translator
from .parts import layer


@torch.no_grad()
#! gradients are recorded while it writes, which takes memory with each token: decorate it with
#! torch.no_grad
# ~
def beam_decode(model, src, max_new_tokens, num_beams=4):  # (1, S) -> a row of tokens, BOS first
    # ? Keep the num_beams likeliest unfinished rows, and apart from them the best finished one.
    # ? A finished row's score is the mean of the logarithms of its new tokens, EOS included.
    memory, mask = model.encode(src), padding_mask(src)
    #! the target reads the padding of the source: hand padding_mask(src) to decode
    # ~ memory, mask = model.encode(src), None
    beams = [([BOS], 0.0)]  # rows of tokens, and the logarithm of their probability
    best, best_score = None, -math.inf  # of the finished rows, by the mean of a new token
    for _ in range(max_new_tokens):
        #! max_new_tokens counts what is written, without BOS, so yours writes one token too few
        # ~ for _ in range(max_new_tokens - 1):
        #! one token too many is written: max_new_tokens counts all that follow BOS
        # ~ for _ in range(max_new_tokens + 1):
        tokens = torch.tensor([row for row, _ in beams], device=src.device)
        logits = model.decode(tokens, memory.expand(len(beams), -1, -1), mask)[:, -1]
        #! what comes next is said by the logits at the last position; yours reads those at the first
        # ~ logits = model.decode(tokens, memory.expand(len(beams), -1, -1), mask)[:, 0]
        logits[:, [PAD, BOS, UNK]] = float("-inf")  # never written
        #! PAD, BOS and UNK are no part of a text: set their logits to -inf before the softmax
        # ~
        #! UNK is never written, because it stands for no letter: set its logit to -inf, too
        # ~ logits[:, [PAD, BOS]] = float("-inf")
        #! BOS is never written: set its logit to -inf, too
        # ~ logits[:, [PAD, UNK]] = float("-inf")
        #! padding is never written: set its logit to -inf, too
        # ~ logits[:, [BOS, UNK]] = float("-inf")
        scores = torch.tensor([[score] for _, score in beams]) + logits.log_softmax(dim=-1).cpu()
        #! the score of a row is the sum over all of its tokens; yours is that of the last
        # ~ scores = logits.log_softmax(dim=-1).cpu()
        #! probabilities are added; add their logarithms, because probabilities are multiplied
        # ~ scores = torch.tensor([[score] for _, score in beams]) + logits.softmax(dim=-1).cpu()
        #! logits are added, but those of two rows don't compare; take their log_softmax first
        # ~ scores = torch.tensor([[score] for _, score in beams]) + logits.cpu()
        #! PAD, BOS and UNK keep their share of the probability, because they are forbidden after the
        #! softmax; forbid them before it
        # ~2 logs = logits.log_softmax(dim=-1).cpu()
        #| logs[:, [PAD, BOS, UNK]] = float("-inf")
        #| scores = torch.tensor([[score] for _, score in beams]) + logs
        values, places = scores.flatten().topk(min(2 * num_beams, scores.numel()))
        #! only num_beams rows are kept before the finished ones leave, so there are too few left; look at
        #! twice as many
        # ~ values, places = scores.flatten().topk(min(num_beams, scores.numel()))
        #! the likeliest 2 * num_beams may be more than there are; take at most scores.numel()
        # ~ values, places = scores.flatten().topk(2 * num_beams)
        longer = []
        for score, place in zip(values.tolist(), places.tolist()):
            row, token = divmod(place, scores.shape[1])
            #! a place counts tokens row by row, so divide it by the size of the vocabulary, not by the
            #! number of beams
            # ~ row, token = place % len(beams), place // len(beams)
            longer.append(([*beams[row][0], token], score))
            #! all rows go on from the first beam; each goes on from its own
            # ~ longer.append(([*beams[0][0], token], score))
        for row, score in longer[:num_beams]:
            #! a finished row counts if it is among the num_beams likeliest; yours looks at all 2 * num_beams
            # ~ for row, score in longer:
            #! only the likeliest row may be finished; look at the num_beams likeliest
            # ~ for row, score in longer[:1]:
            if row[-1] == EOS and score / (len(row) - 1) > best_score:
                best = row
                best_score = score / (len(row) - 1)
                #! finished rows are compared by the sum, which favours short ones; take the mean of a new
                #! token
                # ~ score / (len(row) - 1) -> score
                # ~ beams[0][1] / max_new_tokens -> beams[0][1]
                #! finished rows are compared by the sum, which favours short ones; take the mean of a new
                #! token
                # ~ score / (len(row) - 1) -> score
                #! the mean is that of the new tokens, EOS included; BOS isn't one of them, so divide by
                #! len(row) - 1
                # ~ score / (len(row) - 1) -> score / len(row)
                #! the mean is that of the new tokens, EOS included; BOS isn't one of them, so divide by
                #! len(row) - 1
                # ~ score / (len(row) - 1) -> score / len(row)
                # ~ beams[0][1] / max_new_tokens -> beams[0][1] / (max_new_tokens + 1)
                #! EOS is a new token, too, so the divisor is len(row) - 1
                # ~ score / (len(row) - 1) -> score / max(1, len(row) - 2)
                #! a score is divided by the number of new tokens, not by a power of it, as in other
                #! programs
                # ~ score / (len(row) - 1) -> score / (len(row) - 1) ** 0.7
                # ~ beams[0][1] / max_new_tokens -> beams[0][1] / max_new_tokens**0.7
                #! a score is divided by the number of new tokens, not by a power of it, as in other
                #! programs
                # ~ score / (len(row) - 1) -> score / (len(row) - 1) ** 0.6
                # ~ beams[0][1] / max_new_tokens -> beams[0][1] / max_new_tokens**0.6
                #! a score is divided by the number of new tokens; yours is the penalty of Google's
                #! translator, ((5 + n) / 6) ** 0.6
                # ~ score / (len(row) - 1) -> score / ((4 + len(row)) / 6) ** 0.6
                # ~ beams[0][1] / max_new_tokens -> beams[0][1] / ((5 + max_new_tokens) / 6) ** 0.6
                #! the score of the best row isn't kept, so every finished row takes its place
                # ~ pass
        beams = [(row, score) for row, score in longer if row[-1] != EOS][:num_beams]
        #! a row that has ended doesn't go on
        # ~ beams = longer[:num_beams]
        #! finished rows take the place of others: leave them out first, then take num_beams
        # ~ beams = [(row, score) for row, score in longer[:num_beams] if row[-1] != EOS] or longer[-1:]
        #! only one beam goes on; keep num_beams
        # ~ beams = [(row, score) for row, score in longer if row[-1] != EOS][:1]
        if beams[0][1] / max_new_tokens < best_score:  # no beam can become better
            #! the search ends at the first finished row, but a longer one may have a better mean; it ends when
            #! no beam can become better
            # ~ if best is not None:
            #! a beam is judged by its mean so far, but later tokens may be certain, which raises it; divide by
            #! max_new_tokens
            # ~ if beams[0][1] / (len(beams[0][0]) - 1) < best_score:
            #! a beam is judged by its sum, but the best row by its mean, so the search ends too early; divide
            #! by max_new_tokens
            # ~ if beams[0][1] < best_score:
            #! the search goes on though no beam can become better, which takes time for nothing: its sum can
            #! only fall, and is divided by max_new_tokens at most
            # ~ if False:
            break
    return best or beams[0][0]  # if none is finished, the likeliest
    #! if no row is finished, the likeliest of the beams comes back; yours gives nothing
    # ~ return best
    #! if no row is finished, the likeliest of the beams comes back; yours gives BOS alone
    # ~ return best or [BOS]
    #! a finished row comes back if there is one; yours gives the likeliest beam, which hasn't ended
    # ~ return beams[0][0]
    #! a row begins with BOS; yours is cut behind it
    # ~ return (best or beams[0][0])[1:]
    #! EOS is part of a row, which shows that it has ended; yours is cut before it
    # ~ return best[:-1] if best else beams[0][0]
    #! its score came back, too; only the row is asked for
    # ~ return best or beams[0][0], best_score
    #! an unfinished row can win over a finished one; it comes back only if none is finished
    # ~ return best if best and best_score > beams[0][1] / (len(beams[0][0]) - 1) else beams[0][0]
    #! the first finished row comes back, though a later one has a better mean
    # ~ if row[-1] == EOS and score / (len(row) - 1) > best_score -> if row[-1] == EOS and best is None


def bleu(texts, references, longest=4):  # lists of words
    matches, totals = Counter(), Counter()
    for text, reference in zip(texts, references):
        for n in range(1, longest + 1):
            # ? An n-gram counts at most as often as the reference has it: that is `ours & theirs`.
            ours = Counter(zip(*(text[i:] for i in range(n))))
            #! the last run of n words is lost
            # ~ ours = Counter(zip(*(text[i:-1] for i in range(n))))
            #! runs don't overlap in yours; at each word a run of n words begins
            # ~ ours = Counter(tuple(text[i : i + n]) for i in range(0, len(text) - n + 1, n))
            theirs = Counter(zip(*(reference[i:] for i in range(n))))
            #! runs that are cut off at the end of a text are no runs of n words
            # ~2 ours = Counter(tuple(text[i : i + n]) for i in range(len(text)))
            #| theirs = Counter(tuple(reference[i : i + n]) for i in range(len(reference)))
            matches[n] += sum((ours & theirs).values())
            #! a run counts at most as often as the reference has it; yours counts each that is there at all,
            #! so "the the the" matches three times
            # ~ matches[n] += sum(ours[run] for run in ours if run in theirs)
            #! different runs are counted, each once; a run counts as often as both have it
            # ~ matches[n] += len(ours & theirs)
            #! a run may be anywhere in the reference; yours asks for the same place
            # ~ places = zip(zip(*(text[i:] for i in range(n))), zip(*(reference[i:] for i in range(n))))
            #| matches[n] += sum(a == b for a, b in places)
            #! of a run that both have the smaller count is taken; yours takes the larger
            # ~ matches[n] += sum((ours | theirs)[run] for run in ours if run in theirs)
            totals[n] += sum(ours.values())
            #! precision is a share of the runs that were written; yours is a share of the reference's, which
            #! is recall
            # ~ totals[n] += sum(theirs.values())
            #! different runs are counted, each once; a run counts as often as it was written
            # ~ totals[n] += len(ours)
            #! precision is a share of the runs of n words, of which T words have T - n + 1; yours divides by T
            # ~ totals[n] += len(text)
            #! a smoothed BLEU adds 1 to both counts; here 0 matches make it 0
            # ~ totals[n] += sum(ours.values())
            #| if text is texts[-1]:
            #|     matches[n] += 1
            #|     totals[n] += 1
    written = sum(len(text) for text in texts)
    #! texts are counted, not their words
    # ~2 written = len(texts)
    #| wanted = len(references)
    wanted = sum(len(reference) for reference in references)
    #! the lengths are added up over all texts before they are compared; yours punishes each short text,
    #! though another is too long
    # ~ wanted = sum(max(len(text), len(reference)) for text, reference in zip(texts, references))
    if min(matches[n] for n in range(1, longest + 1)) == 0:
        #! BLEU is 0 if no run of some length matches, and log(0) doesn't exist; yours is 0
        #! only if nothing matches at all
        # ~ if matches[1] == 0:
        return 0.0
    precision = sum(math.log(matches[n] / totals[n]) for n in range(1, longest + 1)) / longest
    #! that is the sum of the logarithms; divide by `longest`, because it is their mean
    # ~ precision = sum(math.log(matches[n] / totals[n]) for n in range(1, longest + 1))
    #! that is the arithmetic mean of the precisions; BLEU takes the geometric one, the mean of their
    #! logarithms
    # ~ precision = math.log(sum(matches[n] / totals[n] for n in range(1, longest + 1)) / longest)
    #! that is the precision of the longest runs alone; take the mean over all lengths
    # ~ precision = math.log(matches[longest] / totals[longest])
    #! the counts of all lengths are added before they are divided; each length has a precision of its own
    # ~ precision = math.log(sum(matches.values()) / sum(totals.values()))
    #! `longest` isn't used in the mean: it is always divided by 4
    # ~ precision = sum(math.log(matches[n] / totals[n]) for n in range(1, longest + 1)) / 4
    #! runs of one word are left out
    # ~ precision = sum(math.log(matches[n] / totals[n]) for n in range(2, longest + 1)) / max(1, longest - 1)
    return 100 * math.exp(precision + min(0.0, 1 - wanted / written))
    #! the penalty for short texts is missing, so one certain word would be perfect
    # ~ return 100 * math.exp(precision)
    #! short texts are punished, by 1 - wanted / written; yours punishes long ones
    # ~ return 100 * math.exp(precision + min(0.0, 1 - written / wanted))
    #! long texts are rewarded; the penalty is never above 1: min(0, …)
    # ~ return 100 * math.exp(precision + 1 - wanted / written)
    #! the penalty is the share of words that were written; it is exp(1 - wanted / written)
    # ~ return 100 * math.exp(precision) * min(1.0, written / wanted)
    #! BLEU goes from 0 to 100; yours goes to 1
    # ~ return math.exp(precision + min(0.0, 1 - wanted / written))
    #! the penalty is added after `exp`; it is multiplied, or added before
    # ~ return 100 * (math.exp(precision) + min(0.0, 1 - wanted / written))
    #! that is the mean of the texts' own BLEU; the counts of all texts are added first, because one text
    #! has too few runs
    # ~ if len(texts) > 1:
    #|     return sum(bleu([a], [b], longest) for a, b in zip(texts, references)) / len(texts)
    #| return 100 * math.exp(precision + min(0.0, 1 - wanted / written))
    #! `longest` isn't used: runs of one to four words are counted
    # ~ matches, totals = Counter(), Counter() -> matches, totals, longest = Counter(), Counter(), 4


# ---------------------------------------------------------------- questions


class Tree(nn.Module):
    """In place of a translator: what follows depends on the source, the position and the last token. It
    notes how it is asked."""

    def __init__(self, draw, vocab_size, end=0.0, scale=1.5, length=12):
        super().__init__()
        self.table = draw.numbers(length, vocab_size, vocab_size, scale=scale)
        self.table[:, :, EOS] += end
        self.source = draw.numbers(8, vocab_size)
        self.longest, self.recorded = 0, False

    def encode(self, src):
        self.recorded |= torch.is_grad_enabled()
        return src[..., None].float()

    def decode(self, tgt, memory, memory_mask=None, attend=None, positions=None):
        self.longest = max(self.longest, tgt.shape[1])
        self.recorded |= torch.is_grad_enabled()
        logits = self.table[torch.arange(tgt.shape[1]), tgt] + self.source[memory[:, :1, 0].long()]
        return logits + self.source[7 if memory_mask is None else memory_mask.sum().item()]


def asked(made, args, row):
    "The row, and how the model was asked."
    return {
        "": row,
        "the longest row that the model is asked about": args[0].longest,
        "gradients are recorded": args[0].recorded,
    }


@question("16", "beam_decode")
def ask_beam_decode(draw):
    for end in (-1.5, -0.5, 0.0, 0.5, 1.0):
        for _ in range(6 * len(draw.rounds)):
            model = Tree(draw, draw.size(6, 9), end, draw.random.choice([1.0, 1.5, 2.5]))
            src = padded(draw, 1, draw.size(1, 5), 7)
            n, beams = draw.size(1, 10), draw.size(1, 4)
            yield Call(f"{beams} beams, {n} new tokens", (model, src, n, beams), look=asked)
    for _ in range(4):
        yield Call(
            "four beams, as it is", (Tree(draw, 8, 0.5), padded(draw, 1, 4, 7), 8), look=asked
        )
    yield Call("max_new_tokens=0", (Tree(draw, 7), padded(draw, 1, 4, 7), 0), look=asked)
    yield Call("no row ends", (Tree(draw, 7, -50.0), padded(draw, 1, 4, 7), 5), look=asked)
    few = Tree(draw, 5, -0.5)
    yield Call("one letter, more beams than tokens", (few, padded(draw, 1, 4, 5), 6, 4), look=asked)
    for n in draw.rounds:
        model = layer(translator, 9, 14, 8, 2, 2, 12).eval()
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(draw.numbers(*p.shape) * 0.5 + 0.5 * (p.ndim == 1))
            model.tgt_embed.tokens.weight[EOS] += 0.2 * n
        yield Call("a small translator", (model, padded(draw, 1, 5, 9), 8, n + 1))


def words(*texts):
    return [text.split() for text in texts]


@question("16", "bleu")
def ask_bleu(draw):
    reference = words("the cat sat on the mat today", "a dog barks at the small cat")
    near = words("the cat sat on a mat", "a dog barks at the cat and the cat")
    snow = words("a dog runs in the snow"), words("the dog runs through deep snow")
    for said, texts, references in [
        ("the references themselves", reference, reference),
        ("near texts", near, reference),
        ("repeated words", words("the the the the cat sat on the"), reference[:1]),
        ("a short text", words("the cat sat on"), reference[:1]),
        ("a long text", words("the cat sat on the mat today and then it slept"), reference[:1]),
        ("nothing in common", words("x y z w v"), reference[:1]),
        ("no run of four in common", *snow),
        ("nothing written", [[]], reference[:1]),
        (
            "one short text and one long one",
            words("the cat sat on", "a dog barks at the small cat there now"),
            reference,
        ),
        ("no texts", [], []),
    ]:
        yield Call(said, (texts, references))
    for n in (1, 2, 3, 6):
        yield Call(f"runs of up to {n} words", (near, reference, n))
    for i in range(8 * len(draw.rounds)):
        references = [
            draw.random.choices("abcde", k=draw.size(1, 12)) for _ in range(draw.size(1, 5))
        ]
        texts = []
        for row in references:
            new = [w if draw.random.random() < 0.8 else draw.random.choice("abcde") for w in row]
            texts.append(new[: draw.size(0, 12)] + draw.random.choices("abcde", k=draw.size(0, 3)))
        yield Call("texts of chance", (texts, references, i % 4 + 1))
