"Lesson 16: translation."

import math
from collections import Counter

import torch
from torch import nn

from ..grading.ask import Call, exercise, question
from ..inspection.translation import count_runs
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
            #! a text shorter than n words has no run of n words, not a negative number of them
            # ~ totals[n] += len(text) - n + 1
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


# ---------------------------------------------------------------- exercises


@exercise("16.1")
def my_shared(hypothesis, reference, n):
    # ? Which runs of n words has the translation? The first begins at word 0, and the last one ends with the last word.
    # ? A `Counter` counts tuples: `runs[tuple(hypothesis[i : i + n])] += 1`.
    # ? For two Counters, `a & b` takes the smaller count of each run, and `.total()` adds them up.
    runs = Counter()
    for i in range(len(hypothesis) - n + 1):
        runs[tuple(hypothesis[i : i + n])] += 1
    right = Counter()
    for i in range(len(reference) - n + 1):
        #! the last runs are shorter than `n`; a run begins at word T − n at the latest
        # ~ for i in range(len(reference)):
        # ~ range(len(hypothesis) - n + 1) -> range(len(hypothesis))
        #! the last run is missing; T words have T − n + 1 runs
        # ~ for i in range(len(reference) - n):
        # ~ range(len(hypothesis) - n + 1) -> range(len(hypothesis) - n)
        #! runs overlap: each begins one word after the one before, in both texts
        # ~ for i in range(0, len(reference) - n + 1, n):
        # ~ range(len(hypothesis) - n + 1) -> range(0, len(hypothesis) - n + 1, n)
        right[tuple(reference[i : i + n])] += 1
    shared = sum(min(runs[run], right[run]) for run in runs)
    #! nothing is clipped; a run counts at most as often as the reference has it
    # ~ shared = sum(runs[run] for run in runs if run in right)
    #! each run is counted once; a run that both texts have twice counts twice
    # ~ shared = len(runs & right)
    #! the reference's runs are counted; a run counts at most as often as the translation has it, too
    # ~ shared = sum(right[run] for run in runs)
    #! two runs at the same place are compared; a run may stand anywhere in the reference
    # ~ places = range(min(len(hypothesis), len(reference)) - n + 1)
    #| shared = sum(hypothesis[i : i + n] == reference[i : i + n] for i in places)
    return shared, sum(runs.values())
    #! a set holds each run once; count how often each is there, with a `Counter`
    # ~ return len(runs & right), len(runs)
    #! the second number counts different runs; count how often each is there
    # ~ return shared, len(runs)
    #! the second number is about the reference; how many runs has the translation?
    # ~ return shared, sum(right.values())
    #! the second number is that of the words; T words have T − n + 1 runs
    # ~ return shared, len(hypothesis)
    #! a text shorter than `n` has no runs, and not a negative number of them
    # ~ return shared, len(hypothesis) - n + 1
    #! that is the first number, the shared runs; return how many there are, too
    # ~ return shared
    #! that is a share; return both numbers, and divide once all sentences are added
    # ~ return shared / max(1, sum(runs.values()))
    #! those are the counts of each run; `.total()` adds them up
    # ~ return runs & right, runs


@exercise("16.2")
def my_average(states):
    # ? One state has a tensor for each name. What is the mean of one name over all states?
    # ? torch.stack([state[name] for state in states]).mean(dim=0), for each name of the first state.
    # ? `t.is_floating_point()` tells which tensors have a mean; keep the others as they are.
    return {
        name: sum(s[name] for s in states) / len(states) if t.is_floating_point() else t
        #! whole numbers have no mean; keep those of the first state
        # ~ name: sum(s[name] for s in states) / len(states)
        #! whole numbers have no mean; keep those of the first state
        # ~ name: sum(s[name] for s in states) // len(states) if not t.is_floating_point() else sum(s[name] for s in states) / len(states)
        #! of whole numbers those of the first state are kept; yours are the last's
        # ~ name: sum(s[name] for s in states) / len(states) if t.is_floating_point() else states[-1][name]
        #! that is the sum of the states; divide by their number
        # ~ name: sum(s[name] for s in states) if t.is_floating_point() else t
        #! there may be any number of states; yours are divided by 2
        # ~ name: sum(s[name] for s in states) / 2 if t.is_floating_point() else t
        #! a tensor becomes one number; take the mean over the states only
        # ~ name: torch.stack([s[name] for s in states]).mean() if t.is_floating_point() else t
        #! the states are on axis 0; the mean is taken along the last axis of each tensor
        # ~ name: torch.stack([s[name] for s in states]).mean(dim=-1) if t.is_floating_point() else t
        #! `cat` puts the states one behind the other; `torch.stack` puts them on an axis of their own
        # ~ name: torch.cat([s[name] for s in states]).mean(dim=0) if t.is_floating_point() else t
        #! the states are one beside the other; take their mean
        # ~ name: torch.stack([s[name] for s in states]) if t.is_floating_point() else t
        for name, t in states[0].items()
        #! the names of whole numbers are missing; keep those of the first state
        # ~ for name, t in states[0].items() if t.is_floating_point()
    }
    #! the mean is halved at each state, so the last one weighs most; divide the sum of all once
    # ~0 mean = dict(states[0])
    #| for s in states[1:]:
    #|     mean = {name: (t + s[name]) / 2 if t.is_floating_point() else t for name, t in mean.items()}
    #| return mean
    # ~ return { -> whole = {
    #! that is the first state alone
    # ~0 return states[0]
    # ~ return { -> whole = {
    #! that is the last state; take the mean of all
    # ~0 return states[-1]
    # ~ return { -> whole = {


@exercise(
    "16.3",
    parts=(
        "the precision of single words is wrong; how many of the five that were said are in the reference?",
        "the precision of pairs is wrong; how many of the four that were said are in the reference?",
        "the precision of triples is wrong; how many of the three that were said are in the reference?",
        "the precision of runs of four is wrong; how many of the two that were said are in the reference?",
        "the precisions are right; the penalty is exp(1 − r/c), and BLEU runs from 0 to 100",
    ),
    near=1e-3,
)
def precisions_and_bleu_of_half():
    # ? A precision asks how much of what was *said* is in the reference, not how much of the reference was said.
    # ? The first five words hold 5 words, 4 pairs, 3 triples and 2 runs of four. How many of them are in the reference?
    # ? What is left is the brevity penalty, exp(1 − r/c), with r = 10 and c = 5.
    return 1, 1, 1, 1, 100 * math.exp(-1)
    #! the precisions are right; the brevity penalty is missing
    # ~ return 1, 1, 1, 1, 100
    #! BLEU runs from 0 to 100 here
    # ~ return 1, 1, 1, 1, math.exp(-1)
    #! the brevity penalty is exp(1 − r/c), not c/r
    # ~ return 1, 1, 1, 1, 50
    #! the exponent is 1 − r/c = −1; 1 − c/r was taken
    # ~ return 1, 1, 1, 1, 100 * math.exp(-0.5)
    #! the penalty multiplies, it does not enter the root
    # ~ return 1, 1, 1, 1, 100 * math.exp(-0.25)
    #! those are recalls: a precision divides by what was said
    # ~ return 5 / 10, 4 / 9, 3 / 8, 2 / 7, 100 * (5 / 10 * 4 / 9 * 3 / 8 * 2 / 7) ** 0.25


@exercise("16.4")
def counts_of_many(hypothesis, references):
    # ? Start from `bleu_counts` and change two things: what the runs are clipped by, and the last number.
    # ? Counters know the maximum of two: `a | b`. Join those of all references, then clip as before.
    # ? The length: `min((len(r) for r in references), key=lambda n: (abs(n - len(hypothesis)), n))`.
    counts = []
    for n in [1, 2, 3, 4]:
        #! runs of one to four words are counted; yours end at three
        # ~ for n in [1, 2, 3]:
        runs = count_runs(hypothesis, n)
        most = Counter()
        for reference in references:
            #! the runs are clipped by the first reference only
            # ~ for reference in references[:1]:
            #! only the nearest reference is looked at; the runs may come from all
            # ~ for reference in [min(references, key=lambda r: (abs(len(r) - len(hypothesis)), len(r)))]:
            most |= count_runs(reference, n)
            #! the references are added up: a run may count as often as one of them has it, not all
            #! together
            # ~ most += count_runs(reference, n)
            #! no run is shared in yours; `&` with an empty Counter leaves nothing, take `|`
            # ~ most &= count_runs(reference, n)
            #! only the last reference is looked at; the runs may come from all
            # ~ most = count_runs(reference, n)
        counts += [(runs & most).total(), runs.total()]
        #! the shared runs are those of the best single reference; each run may come from another
        # ~ counts += [max((runs & count_runs(r, n)).total() for r in references), runs.total()]
        #! the shared runs of all references are added; a run counts once
        # ~ counts += [sum((runs & count_runs(r, n)).total() for r in references), runs.total()]
        #! all runs of the translation count, also one that comes again
        # ~ counts += [(runs & most).total(), len(runs)]
    lengths = [len(reference) for reference in references]
    nearest = min(lengths, key=lambda r: (abs(r - len(hypothesis)), r))
    #! the length is that of the first reference; take the nearest
    # ~ nearest = lengths[0]
    #! the length is that of the reference *nearest* in length, not of the shortest
    # ~ nearest = min(lengths)
    #! the length is that of the reference *nearest* in length, not of the longest
    # ~ nearest = max(lengths)
    #! the length is that of one reference, not the mean
    # ~ nearest = sum(lengths) / len(lengths)
    #! of two lengths equally near the shorter counts; yours takes the longer
    # ~ nearest = min(lengths, key=lambda r: (abs(r - len(hypothesis)), -r))
    #! of two lengths equally near the shorter counts; yours takes the one that comes first
    # ~ nearest = min(lengths, key=lambda r: abs(r - len(hypothesis)))
    return [*counts, len(hypothesis), nearest]
    #! the last two numbers are exchanged: the translation's length comes first
    # ~ return [*counts, nearest, len(hypothesis)]
    #! shared runs and all runs alternate, as in `bleu_counts`
    # ~ return [*counts[::2], *counts[1::2], len(hypothesis), nearest]
    #! the two lengths at the end are missing
    # ~ return counts


@exercise("16.5")
def cost(s):
    # ? Shorter: all precisions are 1, only the penalty acts. What is c, if r is 1?
    # ? Longer: there is no penalty. What share of what was said is right, for n = 1? For n = 4 it is the same, in a long text.
    # ? 100 (1 − exp(1 − 1/(1 − s))) and 100 (1 − 1/(1 + s)).
    return 100 * (1 - math.exp(1 - 1 / (1 - s))), 100 * (1 - 1 / (1 + s))
    #! in points, 0 to 100
    # ~ return 1 - math.exp(1 - 1 / (1 - s)), 1 - 1 / (1 + s)
    #! that is what is left; the cost is 100 less that
    # ~ return 100 * math.exp(1 - 1 / (1 - s)), 100 / (1 + s)
    #! first shorter, then longer
    # ~ return 100 * (1 - 1 / (1 + s)), 100 * (1 - math.exp(1 - 1 / (1 - s)))
    #! exactly, not for small s only
    # ~ return 100 * s, 100 * s
    #! shorter by the share s means c = (1 − s) r, so the exponent is 1 − 1/(1 − s)
    # ~ math.exp(1 - 1 / (1 - s)) -> math.exp(-s)
    #! the penalty is exp(1 − r/c), not c/r
    # ~ math.exp(1 - 1 / (1 - s)) -> (1 - s)
    #! the exponent is 1 − r/c, the reference above
    # ~ math.exp(1 - 1 / (1 - s)) -> math.exp(1 - (1 - s))
    #! a short translation has only right runs, so all precisions are 1, and only the penalty acts
    # ~ math.exp(1 - 1 / (1 - s)) -> (1 - s) * math.exp(1 - 1 / (1 - s))
    #! longer by the share s: s / (1 + s) of what was said is wrong, not s
    # ~ 100 * (1 - 1 / (1 + s)) -> 100 * s
    #! where c is larger than r the penalty is 1: it never helps
    # ~ 100 * (1 - 1 / (1 + s)) -> 100 * (1 - math.exp(1 - 1 / (1 + s)) / (1 + s))
    #! a longer text has no penalty, only lower precisions
    # ~ 100 * (1 - 1 / (1 + s)) -> 100 * (1 - math.exp(1 - (1 + s)))
    #! there is no penalty for a longer text, but wrong words lower its precisions
    # ~ 100 * (1 - 1 / (1 + s)) -> 0
    #! the mean of four equal precisions is that precision, not its fourth power
    # ~ 100 * (1 - 1 / (1 + s)) -> 100 * (1 - (1 + s) ** -4)
    #! two numbers are asked for: the cost of being shorter, and of being longer
    # ~ return 100 * (1 - math.exp(1 - 1 / (1 - s)))


@exercise(
    "16.6",
    parts=(
        "(a): a hundred small steps apart, each number still means the same",
        "(b): two seeds give two models that have nothing in common, number by number",
        "(c): it computes the same, but not in the same positions: the mean mixes two heads",
        "(d): the mean of a number and itself is the number",
    ),
)
def means_that_are_good_models():
    # ? A weight means something only together with the weights around it. When do two models agree on what each number means?
    # ? Two seeds begin with other random numbers: what is head 1 in one may be nothing, or head 4, in the other.
    # ? (c) computes the same as the model, yet its numbers are elsewhere: the mean mixes two heads into one.
    return True, False, False, True
    #! number by number: neither two seeds nor exchanged heads agree on what is where
    # ~ return True, True, True, True
    #! two seeds give two models that are equally good and have nothing in common, number by number
    # ~ return True, True, False, True
    #! the two of (c) compute the same, but not in the same positions: the mean mixes two heads
    # ~ return True, False, True, True


@exercise("16.7")
def together(logits):
    # ? First make probabilities of each model's logits, along the last axis; then take their mean over the models; then the logarithm.
    # ? Logits of −1,000 and +1,000 must not give infinite numbers: stay with logarithms, and let `logsumexp` take the mean.
    # ? `logits.log_softmax(-1).logsumexp(0) - math.log(len(logits))`.
    return logits.log_softmax(-1).logsumexp(0) - math.log(len(logits))
    #! that is the mean of the logits: a model that shouts, with large numbers, would count for more
    # ~ return logits.mean(0)
    #! that is the mean of the logits, made probabilities: the geometric mean, not that of the
    #! probabilities
    # ~ return logits.mean(0).log_softmax(-1)
    #! that is the mean of the log-probabilities: a token that one model rules out would be ruled out
    #! for all
    # ~ return logits.log_softmax(-1).mean(0)
    #! those are probabilities: the logarithm is missing
    # ~ return logits.softmax(-1).mean(0)
    #! the probabilities are added, not averaged: subtract the logarithm of how many models there are
    # ~ return logits.log_softmax(-1).logsumexp(0)
    #! the logarithm of a small probability is −∞, because e^−1000 is 0 in a computer; `log_softmax`
    #! and `logsumexp` stay finite
    # ~ return logits.softmax(-1).mean(0).log()
    #! small probabilities end at the number that you add or cut at; `log_softmax` and `logsumexp`
    #! keep them
    # ~ return (logits.softmax(-1).mean(0) + 1e-9).log()
    #! the softmax runs over the models; it belongs along the last axis, over the tokens
    # ~ return logits.log_softmax(0).logsumexp(0) - math.log(len(logits))
    #! logits are no log-probabilities yet, and the largest would count for more: `log_softmax` comes
    #! before the mean
    # ~ return logits.logsumexp(0) - math.log(len(logits))
    #! made probabilities only after the mean, a model with large logits counts for more:
    #! `log_softmax` comes before it
    # ~ return logits.logsumexp(0).log_softmax(-1)
    #! a mean of probabilities is divided before the logarithm: minus ln M, not by M
    # ~ return logits.log_softmax(-1).logsumexp(0) / len(logits)
    #! the mean is over the models, on axis 0; yours is over the rows of the batch
    # ~ return logits.log_softmax(-1).logsumexp(1) - math.log(logits.shape[1])
    #! the product of the probabilities was taken; take their mean
    # ~ return logits.log_softmax(-1).sum(0)
    #! each token's best model is taken; all of them count
    # ~ return logits.log_softmax(-1).amax(0)


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


def chance_words(draw, low, high, letters="abcd"):
    return draw.random.choices(letters, k=draw.size(low, high))


@question("16", "16.1")
def ask_my_shared(draw):
    reference = "the dog runs to the red dog and the dog runs home again at last .".split()
    hypothesis = "the dog runs the dog red the to dog runs the dog runs .".split()
    for n in (2, 1, 3, 4):
        yield Call(f"a text that repeats itself, n = {n}", (hypothesis, reference, n))
        yield Call(f"the two exchanged, n = {n}", (reference, hypothesis, n))
    yield Call("a text and itself, n = 2", (reference, reference, 2))
    for said, ours, theirs, n in [
        ("two words, n = 4", ["a", "dog"], reference, 4),
        ("two words, n = 2", ["the", "dog"], reference, 2),
        ("a reference of two words, n = 3", reference, ["the", "dog"], 3),
        ("nothing written", [], reference, 2),
        ("no reference", hypothesis, [], 1),
        ("nothing in common", ["x", "y", "z"], reference, 1),
    ]:
        yield Call(said, (ours, theirs, n))
    for i in range(4 * len(draw.rounds)):
        ours, theirs = chance_words(draw, 1, 14, "abc"), chance_words(draw, 1, 14, "abc")
        n = i % 4 + 1
        yield Call(f"{' '.join(ours)!r} and {' '.join(theirs)!r}, n = {n}", (ours, theirs, n))


def whole_numbers(made, args, result):
    "Which tensors hold whole numbers; a model doesn't load others in their place."
    if not isinstance(result, dict):
        return {}
    named = sorted(result.items(), key=lambda item: str(item[0]))
    whole = [name for name, t in named if torch.is_tensor(t) and not t.is_floating_point()]
    tensors = all(isinstance(t, torch.Tensor) for t in result.values())
    return {"all values are tensors": tensors, "the names of whole numbers": whole}


@question("16", "16.2")
def ask_my_average(draw):
    for n in (3, 2, 7, 1, 12):
        states = []
        for _ in range(n):
            state = {"w": draw.numbers(4, 3), "b": draw.numbers(3), "count": draw.tokens(1)[0]}
            state |= {"norm.seen": draw.tokens(2, high=99), "scale": draw.numbers(1)[0]}
            states.append(state)
        states[0]["count"] = states[-1]["count"] + 7
        yield Call(f"{n} states", (states,), look=whole_numbers)
    states = [{"w": 1000 * draw.numbers(2, 5)} for _ in range(3)]
    yield Call("states of one weight", (states,), look=whole_numbers)


@question("16", "16.4")
def ask_counts_of_many(draw):
    said = "the the dog dog dog runs in the snow".split()
    references = words(
        "a cat and the dog in the white park of the town .",
        "the dog dog runs",
        "a dog runs in the deep white snow of the park",
        "the the dog in the snow runs to the wood and far away .",
    )
    equally = words("a b c d e f g h", "a b c d e f g h i j", "a b c d e f g h i j k l m")
    for what, others in [
        ("four references", references),
        ("the four in another order", references[::-1]),
        ("two equally near, the shorter first", equally),
        ("two equally near, the longer first", equally[::-1]),
        ("one reference", references[2:3]),
        ("one of the references is the text", [references[0], said, references[1]]),
        ("no word in common", words("x y z", "x")),
    ]:
        yield Call(what, (said, others))
    yield Call("nothing written", ([], references))
    yield Call("two words", (["the", "dog"], references))
    for _ in range(4 * len(draw.rounds)):
        ours = chance_words(draw, 1, 12)
        others = [chance_words(draw, 1, 14) for _ in range(draw.size(1, 4))]
        yield Call(f"{' '.join(ours)!r}, {len(others)} references", (ours, others))


@question("16", "16.5")
def ask_cost(draw):
    for s in [0.3, 0.05, 0.1, 0.01, 0.2, 0.5, *(draw.random.uniform(0.02, 0.4) for _ in range(6))]:
        yield Call(f"s = {s:.3g}", (s,))


@question("16", "16.7")
def ask_together(draw):
    for M, B, V in [(3, 4, 6), (2, 5, 3), (1, 2, 4), (5, 1, 7), (4, 3, 2), (6, 2, 9)]:
        for scale in (1.0, 4.0):
            logits = draw.numbers(M, B, V, scale=scale)
            yield Call(f"M = {M}, B = {B}, V = {V}", (logits,))
    large = [[[1000.0, -1000.0, 0.0]], [[999.0, -1000.0, 1000.0]]]
    yield Call("logits of ±1,000", (torch.tensor(large),))
    for M, B, V in [(3, 2, 5), (2, 4, 7)]:
        logits = 1000 * (2.0 * draw.mask(M, B, V) - 1)
        yield Call("logits of ±1,000 by chance", (logits + draw.numbers(M, B, V),))
