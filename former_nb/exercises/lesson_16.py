"Lesson 16: translation."

import math
from collections import Counter

import torch

from .lesson_04 import padding_mask
from .lesson_07 import BOS, EOS, PAD, UNK


@torch.no_grad()
def beam_decode(model, src, max_new_tokens, num_beams=4):  # (1, S) -> a row of tokens, BOS first
    memory, mask = model.encode(src), padding_mask(src)
    beams = [([BOS], 0.0)]  # rows of tokens, and the logarithm of their probability
    best, best_score = None, -math.inf  # of the finished rows, by the mean of a new token
    for _ in range(max_new_tokens):
        tokens = torch.tensor([row for row, _ in beams], device=src.device)
        logits = model.decode(tokens, memory.expand(len(beams), -1, -1), mask)[:, -1]
        logits[:, [PAD, BOS, UNK]] = float("-inf")  # never written
        scores = torch.tensor([[score] for _, score in beams]) + logits.log_softmax(dim=-1).cpu()
        values, places = scores.flatten().topk(min(2 * num_beams, scores.numel()))
        longer = []
        for score, place in zip(values.tolist(), places.tolist()):
            row, token = divmod(place, scores.shape[1])
            longer.append(([*beams[row][0], token], score))
        for row, score in longer[:num_beams]:
            if row[-1] == EOS and score / (len(row) - 1) > best_score:
                best = row
                best_score = score / (len(row) - 1)
        beams = [(row, score) for row, score in longer if row[-1] != EOS][:num_beams]
        if beams[0][1] / max_new_tokens < best_score:  # no beam can become better
            break
    return best or beams[0][0]  # if none is finished, the likeliest


def bleu(texts, references, longest=4):  # lists of words
    matches, totals = Counter(), Counter()
    for text, reference in zip(texts, references):
        for n in range(1, longest + 1):
            ours = Counter(zip(*(text[i:] for i in range(n))))
            theirs = Counter(zip(*(reference[i:] for i in range(n))))
            matches[n] += sum((ours & theirs).values())
            totals[n] += sum(ours.values())
    written = sum(len(text) for text in texts)
    wanted = sum(len(reference) for reference in references)
    if min(matches[n] for n in range(1, longest + 1)) == 0:
        return 0.0
    precision = sum(math.log(matches[n] / totals[n]) for n in range(1, longest + 1)) / longest
    return 100 * math.exp(precision + min(0.0, 1 - wanted / written))


# ---------------------------------------------------------------- questions
