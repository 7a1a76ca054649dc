"Lesson 07: text."

import torch
from torch import nn

from ..grading.ask import Call, exercise, question
from .lesson_05 import LearnedPositions
from .lesson_06 import in_two
from .parts import layer

PAD, BOS, EOS, UNK = range(4)
IGNORE = -100  # a target that counts for nothing, PyTorch's own choice


class CharTokenizer:
    def __init__(self, alphabet):
        self.alphabet = alphabet
        self.number = {letter: i for i, letter in enumerate(alphabet, start=4)}
        #! letters begin at 4, because 0 to 3 belong to PAD, BOS, EOS and UNK; yours begin at 0, so
        #! the first letters can't be told from those
        # ~ self.number = {letter: i for i, letter in enumerate(alphabet)}
        #! letters begin at 4, because 0 to 3 belong to PAD, BOS, EOS and UNK; both encode and
        #! decode of yours begin at 0, so the first letters can't be told from those
        # ~ self.number = {letter: i for i, letter in enumerate(alphabet)}
        # ~ self.alphabet[i - 4] for i in tokens if i >= 4 -> self.alphabet[i] for i in tokens
        #! there are four special tokens, so letters begin at 4; yours begin at 3, which is UNK's
        # ~ self.number = {letter: i for i, letter in enumerate(alphabet, start=3)}
        #! there are four special tokens, so letters begin at 4; encode and decode of yours begin at
        #! 3, so the first letter can't be told from UNK
        # ~ self.number = {letter: i for i, letter in enumerate(alphabet, start=3)}
        # ~ self.alphabet[i - 4] for i in tokens if i >= 4 -> self.alphabet[i - 3] for i in tokens if i >= 3
        #! four special tokens take 0 to 3, so letters begin at 4; yours begin at 5
        # ~ self.number = {letter: i for i, letter in enumerate(alphabet, start=5)}
        self.vocab_size = 4 + len(alphabet)
        #! vocab_size counts the four special tokens, too, because a model has a row for each of
        #! them; with yours the last four letters would have no row
        # ~ self.vocab_size = len(alphabet)
        #! there are four special tokens, PAD, BOS, EOS and UNK; vocab_size counts three of them, so
        #! the last letter would have no row in a model
        # ~ self.vocab_size = 3 + len(alphabet)

    @classmethod
    #! a text is trained on before there is a tokenizer, so `train` is called on the class itself;
    #! without @classmethod Python takes the texts for its first argument
    # ~
    def train(cls, texts):
        return cls("".join(sorted(set("".join(texts)))))
        #! a set has no order of its own, so each run of Python would number the letters otherwise,
        #! and a saved model would read nonsense; sort them
        # ~ return cls("".join(set("".join(texts))))
        #! a letter is in the alphabet once, so take the set first; yours has it as often as the
        #! texts do, which makes the vocabulary far too large
        # ~ return cls("".join(sorted("".join(texts))))
        #! letters are numbered in the order of the alphabet, because then the order of the texts
        #! doesn't matter; yours are numbered as they are met
        # ~ return cls("".join(dict.fromkeys("".join(texts))))
        #! letters are numbered in the order of the alphabet, sorted; yours run backwards
        # ~ return cls("".join(sorted(set("".join(texts)), reverse=True)))
        #! capitals are letters of their own; yours are changed to small ones, so decode can't bring
        #! them back
        # ~ return cls("".join(sorted(set("".join(texts).lower()))))
        #! spaces and line breaks are letters, too; yours leaves them out, so they become UNK
        # ~ return cls("".join(sorted(set("".join("".join(texts).split())))))
        #! the alphabet is made of the letters of the texts, so join the texts first; yours sorts
        #! whole texts
        # ~ return cls("".join(sorted(set(texts))))
        #! all texts are read, not only the first; the letters of the others would be UNK
        # ~ return cls("".join(sorted(set("".join(texts[:1])))))
        #! `train` returns a tokenizer, so give the letters to `cls`; yours returns the letters
        # ~ return "".join(sorted(set("".join(texts))))

    def encode(self, text):
        return [self.number.get(letter, UNK) for letter in text]
        #! a letter that the alphabet lacks becomes UNK, because a user may type anything; yours
        #! raises a KeyError
        # ~ return [self.number[letter] for letter in text]
        #! a letter that the alphabet lacks becomes UNK; yours is left out, so the tokens no longer
        #! fit the letters one by one
        # ~ return [self.number[letter] for letter in text if letter in self.number]
        #! a letter that the alphabet lacks becomes UNK; yours becomes None, for which no model has
        #! a row
        # ~ return [self.number.get(letter) for letter in text]
        #! a letter that the alphabet lacks becomes UNK; yours becomes PAD, which attention hides
        # ~ return [self.number.get(letter, PAD) for letter in text]
        #! `encode` gives the letters alone, because a prompt has no end; encode_texts puts BOS and
        #! EOS around them
        # ~ return [BOS, *(self.number.get(letter, UNK) for letter in text), EOS]
        #! `encode` gives the letters alone; encode_texts puts BOS before them, so there would be
        #! two
        # ~ return [BOS, *(self.number.get(letter, UNK) for letter in text)]
        #! a list is asked for, because encode_texts builds rows of different lengths from it;
        #! pad_rows makes the tensor
        # ~ return torch.tensor([self.number.get(letter, UNK) for letter in text])
        #! each letter is a token, not each word
        # ~ return [self.number.get(word, UNK) for word in text.split()]

    def decode(self, tokens):
        return "".join(self.alphabet[i - 4] for i in tokens if i >= 4)
        #! special tokens aren't letters, so numbers below 4 are left out; yours counts them from
        #! the end of the alphabet, since its first index is negative
        # ~ return "".join(self.alphabet[i - 4] for i in tokens)
        #! number 4 is the first letter; yours leaves it out
        # ~ return "".join(self.alphabet[i - 4] for i in tokens if i > 4)
        #! UNK isn't a letter, so it is left out; yours writes the last letter of the alphabet for
        #! it, alphabet[-1]
        # ~ return "".join(self.alphabet[i - 4] for i in tokens if i >= 3)
        #! UNK is left out; yours writes a question mark for it
        # ~ return "".join(self.alphabet[i - 4] if i >= 4 else "?" for i in tokens if i >= 3)
        #! UNK is left out; yours writes the replacement character for it
        # ~ return "".join(self.alphabet[i - 4] if i >= 4 else "\ufffd" for i in tokens if i >= 3)
        #! padding, BOS and EOS are left out, not written as spaces
        # ~ return "".join(self.alphabet[i - 4] if i >= 4 else " " for i in tokens)
        #! letter number 4 is the first of the alphabet, so subtract 4
        # ~ return "".join(self.alphabet[i] for i in tokens if i >= 4)
        #! all letters are decoded, also those behind an EOS; what comes after it is cut off
        #! elsewhere
        # ~ text = ""
        #| for i in tokens:
        #|     if i == EOS:
        #|         break
        #|     text += self.alphabet[i - 4] if i >= 4 else ""
        #| return text
        #! letters are joined with nothing between; spaces are letters of the alphabet themselves
        # ~ return " ".join(self.alphabet[i - 4] for i in tokens if i >= 4)
        #! `decode` returns a text; join the letters
        # ~ return [self.alphabet[i - 4] for i in tokens if i >= 4]


def encode_texts(texts, tokenizer):
    return [[BOS, *tokenizer.encode(text), EOS] for text in texts]
    #! a row begins with BOS, because the model has to learn which letter comes first
    # ~ return [[*tokenizer.encode(text), EOS] for text in texts]
    #! a row ends with EOS, because otherwise the model never learns to stop
    # ~ return [[BOS, *tokenizer.encode(text)] for text in texts]
    #! BOS and EOS are missing: without them the model learns neither how a text begins nor when to
    #! stop
    # ~ return [tokenizer.encode(text) for text in texts]
    #! BOS begins a row and EOS ends it; yours are exchanged
    # ~ return [[EOS, *tokenizer.encode(text), BOS] for text in texts]
    #! a row ends with EOS, not with PAD, which attention hides
    # ~ return [[BOS, *tokenizer.encode(text), PAD] for text in texts]
    #! the marks are numbers and no text; a tokenizer takes "<bos>" for five letters
    # ~ return [tokenizer.encode("<bos>" + text + "<eos>") for text in texts]
    #! a row ends with EOS, not with BOS
    # ~ return [[BOS, *tokenizer.encode(text), BOS] for text in texts]
    #! an empty text is a text, too, and its row is [BOS, EOS]; yours is left out
    # ~ return [[BOS, *tokenizer.encode(text), EOS] for text in texts if text]
    #! each text is a row of its own; yours are joined into one
    # ~ return [token for text in texts for token in [BOS, *tokenizer.encode(text), EOS]]
    #! the tokens themselves are in a row; yours holds the list of them as one element, so unpack it
    #! with a star
    # ~ return [[BOS, tokenizer.encode(text), EOS] for text in texts]
    #! rows are lists, because they have different lengths; pad_rows makes the tensor
    # ~ return [torch.tensor([BOS, *tokenizer.encode(text), EOS]) for text in texts]
    #! the alphabet belongs to the training texts, so use the tokenizer that it is given; yours
    #! trains another one
    # ~ tokenizer = CharTokenizer.train(texts)
    #| return [[BOS, *tokenizer.encode(text), EOS] for text in texts]


def pad_rows(rows, value=PAD):  # lists of numbers -> (B, T)
    longest = max((len(row) for row in rows), default=0)
    #! rows are filled up to the longest, so take the maximum; yours takes the minimum, for which
    #! the longer ones don't fit
    # ~ longest = min((len(row) for row in rows), default=0)
    #! rows are filled up to the longest; yours are cut to the shortest, so tokens are lost
    # ~ longest = min((len(row) for row in rows), default=0)
    # ~ torch.as_tensor(row) -> torch.as_tensor(row[:longest])
    #! the longest row gets no padding; yours is one column too wide
    # ~ longest = max((len(row) for row in rows), default=0) + 1
    #! rows are filled up to the longest, and the first need not be that
    # ~ longest = len(rows[0]) if rows else 0
    # ~ torch.as_tensor(row) -> torch.as_tensor(row[:longest])
    padded = torch.full((len(rows), longest), value)
    #! the value that it is given isn't used; targets, for example, are filled with IGNORE
    # ~ padded = torch.full((len(rows), longest), PAD)
    #! tokens are whole numbers, because they say which row of a table is meant; yours become
    #! floats, as torch.zeros makes them
    # ~ padded = torch.full((len(rows), longest), float(value))
    #! tokens are whole numbers, and the value that it is given is what rows are filled with;
    #! torch.zeros makes floats of 0
    # ~ padded = torch.zeros(len(rows), longest)
    #! a row of the table is a text, (B, T); yours has texts as columns
    # ~ padded = torch.full((longest, len(rows)), value)
    # ~ padded[i, : len(row)] = -> padded[: len(row), i] =
    for i, row in enumerate(rows):
        padded[i, : len(row)] = torch.as_tensor(row)
        #! padding comes behind a row, because positions count from its first token; yours comes
        #! before it
        # ~ padded[i, longest - len(row) :] = torch.as_tensor(row)
        #! nothing is copied: the table holds padding alone
        # ~ pass
        #! rows keep their order; yours are turned around
        # ~ padded[i, : len(row)] = torch.as_tensor(row[::-1])
        #! the last token of each row is lost
        # ~ padded[i, : len(row) - 1] = torch.as_tensor(row[:-1])
    return padded
    #! rows of different lengths don't fit into one tensor, so torch.tensor raises; fill them first
    # ~ return torch.tensor(rows)
    #! a tensor is asked for, (B, T), since a model reads tensors; yours are lists
    # ~ return [[*row, *[value] * (longest - len(row))] for row in rows]
    #! with empty rows alone, torch.tensor makes floats; make the table first, torch.full((B, T), value), and copy each row into it
    # ~ return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows])
    #! pad_sequence puts the texts into columns unless it is told batch_first=True
    # ~ return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], padding_value=value)
    #! pad_sequence takes the type of the first row, and an empty one is made of floats
    # ~ return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, value)


def collate(rows):  # a batch: inputs, and for each the token that comes next
    inputs = pad_rows([row[:-1] for row in rows])
    #! inputs lack the last token of a row, since nothing comes after it; yours has the whole row,
    #! so inputs and targets have different lengths
    # ~ inputs = pad_rows(rows)
    #! inputs are filled with PAD; IGNORE is for targets, and an embedding has no row -100
    # ~ inputs = pad_rows([row[:-1] for row in rows], IGNORE)
    #! inputs keep BOS, because the model predicts the first letter from it
    # ~ inputs = pad_rows([row[1:-1] for row in rows])
    #! rows[:-1] leaves out a text of the batch; each row loses its own last token, row[:-1]
    # ~ inputs = pad_rows(rows[:-1])
    #! rows[:-1] and rows[1:] leave out a text of the batch; cut each row: row[:-1], row[1:]
    # ~ inputs = pad_rows(rows[:-1])
    # ~ pad_rows([row[1:] for row in rows], IGNORE) -> pad_rows(rows[1:], IGNORE)
    targets = pad_rows([row[1:] for row in rows], IGNORE)
    #! the target at a position is the token that comes next, row[1:]; with yours the model only has
    #! to copy its input
    # ~ targets = pad_rows([row[:-1] for row in rows], IGNORE)
    #! targets are filled with IGNORE, because the loss leaves those out; with PAD the model learns
    #! to write padding
    # ~ targets = pad_rows([row[1:] for row in rows])
    #! targets lack the first token of a row, which nothing predicts; yours has the whole row
    # ~ targets = pad_rows(rows, IGNORE)
    #! the target at a position is the next token, not the one after it
    # ~ targets = pad_rows([row[2:] for row in rows], IGNORE)
    #! EOS is a target, too, because otherwise the model never learns to stop
    # ~ targets = pad_rows([row[1:-1] for row in rows], IGNORE)
    #! EOS is a target, too, because otherwise the model never learns to stop; yours is ignored
    # ~ targets = pad_rows([[*row[1:-1], *[IGNORE] * (len(row) > 1)] for row in rows], IGNORE)
    #! inputs and targets are exchanged: the model would predict the token before
    # ~2 inputs = pad_rows([row[1:] for row in rows])
    #| targets = pad_rows([row[:-1] for row in rows], IGNORE)
    #! inputs are the whole rows and so are the targets; inputs lack the last token, and targets the
    #! first, so that each position has to predict the next
    # ~2 inputs = pad_rows(rows)
    #| targets = pad_rows(rows, IGNORE)
    #! a row loses its last token before it is padded; yours loses the last column of the whole
    #! table, so a short row keeps its EOS as an input
    # ~2 inputs = pad_rows(rows)[:, :-1]
    #| targets = pad_rows(rows, IGNORE)[:, 1:]
    #! a row loses its last token before it is padded, and targets are filled with IGNORE; yours
    #! pads first, so a short row keeps its EOS as an input and has padding to predict
    # ~2 inputs = pad_rows(rows)[:, :-1]
    #| targets = pad_rows(rows)[:, 1:]
    #! a row loses its last token before it is padded; yours pads first, so EOS is an input, and the
    #! token that has to follow it is padding
    # ~2 table = pad_rows(rows)
    #| inputs = table[:, :-1]
    #| targets = table[:, 1:].masked_fill(inputs == PAD, IGNORE)
    #! rows are filled up to the longest; yours are cut to the shortest, so tokens are lost
    # ~2 shortest = min((len(row) for row in rows), default=0)
    #| inputs = pad_rows([row[: shortest - 1] for row in rows])
    #| targets = pad_rows([row[1:shortest] for row in rows], IGNORE)
    #! the table is as wide as the longest row without one token; yours has a column of nothing but
    #! padding
    # ~2 inputs = pad_rows([row[:-1] + [PAD] for row in rows])
    #| targets = pad_rows([row[1:] + [IGNORE] for row in rows], IGNORE)
    #! padding comes behind a row, because positions count from its first token; yours comes before
    #! it
    # ~2 longest = max((len(row) for row in rows), default=0)
    #| inputs = pad_rows([[PAD] * (longest - len(row)) + row[:-1] for row in rows])
    #| targets = pad_rows([[IGNORE] * (longest - len(row)) + row[1:] for row in rows], IGNORE)
    return inputs, targets
    #! the inputs are the tensor itself; a tuple is for a model that reads two texts, the translator
    # ~ return (inputs,), targets
    #! a batch is (inputs, targets), in this order
    # ~ return targets, inputs
    #! targets are asked for, too: return inputs, targets
    # ~ return inputs
    #! tensors are asked for, because a model reads tensors; yours are lists
    # ~ return inputs.tolist(), targets.tolist()
    #! the inputs are a tensor, and so are the targets; yours are lists
    # ~ return inputs, targets.tolist()


class Embedding(nn.Module):
    def __init__(self, vocab_size, d_model, position_embedding=None, dropout=0.0):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, d_model)
        #! padding_idx keeps the row of PAD as it is, because no gradient reaches it; here the mask
        #! and IGNORE see to padding, and the row learns like any other
        # ~ self.tokens = nn.Embedding(vocab_size, d_model, padding_idx=PAD)
        nn.init.normal_(self.tokens.weight, std=0.02)
        #! the vectors start with a standard deviation of 0.02; PyTorch's own is 1, which makes the
        #! first logits far too large, since the head will use the same table
        # ~ pass
        #! the vectors start with a standard deviation of 0.02, not of 1 / √d_model
        # ~ nn.init.normal_(self.tokens.weight, std=d_model**-0.5)
        #! the vectors start at random, because equal ones would stay equal
        # ~ nn.init.zeros_(self.tokens.weight)
        #! 0.02 is the standard deviation; yours is the variance, so that the vectors start with
        #! 0.14
        # ~ nn.init.normal_(self.tokens.weight, std=0.02**0.5)
        self.position_embedding = position_embedding
        self.dropout = nn.Dropout(dropout)
        #! the rate of dropout isn't passed on
        # ~ self.dropout = nn.Dropout()

    def forward(self, tokens, positions=None):  # (B, T), (T,)
        x = self.tokens(tokens)
        #! the vectors are multiplied by √d_model, as in the paper of 2017; the course leaves them
        #! as they are
        # ~ x = self.tokens(tokens) * self.tokens.embedding_dim**0.5
        #! dropout comes last, so that it drops parts of the position, too; yours comes before the
        #! positions
        # ~ x = self.dropout(self.tokens(tokens))
        # ~ return self.dropout(x) -> return x
        if self.position_embedding is not None:
            x = self.position_embedding(x, positions)
            #! the positions that it is given aren't used; a text that goes on from a cache begins
            #! further than 0
            # ~ x = self.position_embedding(x, torch.arange(tokens.shape[1]))
            #! position_embedding gets the vectors and returns them with their positions; yours adds
            #! the vectors once more
            # ~ x = x + self.position_embedding(x, positions)
            #! position_embedding gets the vectors of the tokens, not their numbers
            # ~ x = self.position_embedding(tokens, positions)
            #! the vectors come first, then the positions
            # ~ x = self.position_embedding(positions, x)
            #! position_embedding isn't used, or what it returns isn't kept (x = …), so the model
            #! never learns where a token stands
            # ~ pass
        return self.dropout(x)
        #! nothing is dropped: what comes out goes through self.dropout, which has the rate that
        #! __init__ is given
        # ~ return x


# ---------------------------------------------------------------- exercises


@exercise("07.1")
def my_collate(rows):
    # ? For one row, the inputs are `row[:-1]` and the targets `row[1:]`. Both have the same length.
    # ? Begin with `torch.full((B, T), 0)` and `torch.full((B, T), -100)`, and write each row in.
    # ? `inputs[i, : len(row) - 1] = torch.tensor(row[:-1])`
    T = max(map(len, rows)) - 1
    #! T is one less than the longest row; yours is as long as it
    # ~ T = max(map(len, rows))
    inputs, targets = torch.full((len(rows), T), 0), torch.full((len(rows), T), -100)
    #! a pad is no target: fill the targets with -100
    # ~ inputs, targets = torch.full((len(rows), T), 0), torch.full((len(rows), T), 0)
    #! fill the inputs with 0, which is PAD; -100 has no vector
    # ~ inputs, targets = torch.full((len(rows), T), -100), torch.full((len(rows), T), -100)
    #! `torch.zeros` makes floats, and an embedding looks up integers: dtype=torch.long
    # ~ inputs, targets = torch.zeros(len(rows), T), torch.zeros(len(rows), T) - 100
    #! the two fillings are exchanged: inputs get PAD, and targets -100
    # ~ inputs, targets = torch.full((len(rows), T), -100), torch.full((len(rows), T), 0)
    for i, row in enumerate(rows):
        inputs[i, : len(row) - 1] = torch.tensor(row[:-1])
        targets[i, : len(row) - 1] = torch.tensor(row[1:])
        #! targets are shifted by one: leave out the first token, not the last
        # ~ targets[i, : len(row) - 1] = torch.tensor(row[:-1])
        #! the end of a text is a target too; only pads are left out
        # ~ targets[i, : len(row) - 2] = torch.tensor(row[1:-1])
        #! fill on the right
        # ~2 inputs[i, T + 1 - len(row) :] = torch.tensor(row[:-1])
        # | targets[i, T + 1 - len(row) :] = torch.tensor(row[1:])
    return inputs, targets
    #! inputs come first, then targets; yours are the other way round
    # ~ return targets, inputs
    #! two tensors are asked for; `torch.tensor` makes one of lists
    # ~ return inputs.tolist(), targets.tolist()
    #! two tensors are asked for; `torch.tensor` makes one of a list
    # ~ return inputs, targets.tolist()
    #! the inputs leave out the last token of each row, <eos>
    # ~ inputs = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True)
    # | return inputs, targets
    #! pad after the shift: leave out the last token of each row, not the last column
    # ~ inputs = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True)
    # | return inputs[:, :-1], targets
    #! pad after the shift, and fill the targets with -100, not with PAD
    # ~ whole = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True)
    # | return whole[:, :-1], whole[:, 1:]
    #! pad after the shift; yours pads first, so a short row has <eos> as an input, and its target is
    #! padding
    # ~ whole = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True)
    # | return whole[:, :-1], whole[:, 1:].masked_fill(whole[:, :-1] == 0, -100)
    #! the rows are cut to the shortest one; fill the shorter ones up instead
    # ~ T = min(map(len, rows)) - 1
    # | return inputs[:, :T], targets[:, :T]


@exercise(
    "07.2",
    parts=(
        "the width: how many tokens has the longest name with both marks, and which of them is no input?",
        "the targets: each name has one for each letter and one for its end, and pads are none",
    ),
)
def width_and_targets():
    # ? How many tokens has *aleksandra* with its two marks? How many of them are inputs?
    # ? A name has a target for each letter, and one for its end.
    letters = [len(name) for name in ("ona", "rasa", "jonas", "aleksandra")]
    return max(letters) + 1, sum(n + 1 for n in letters)  # <bos> is an input, <eos> is a target
    #! <bos> and <eos> are two tokens, of which one is an input
    # ~ return 10, 22
    #! the end of a name is a target too
    # ~ return 11, 22
    #! the inputs leave out <eos>, so the batch is one narrower
    # ~ return 12, 26
    #! that counts both marks; <bos> is no target
    # ~ return 12, 30
    #! <bos> is no target
    # ~ return 11, 30
    #! pads are no targets
    # ~ return 11, 44


@exercise("07.3")
def per_target(mean, lengths):
    # ? What is the sum of the losses over all positions? Which positions does it come from?
    # ? There are B · T positions with T = max(lengths) - 1. How many of them have a real target?
    positions = len(lengths) * (max(lengths) - 1)
    #! T is max(lengths) - 1, since the inputs leave out <eos>
    # ~ positions = len(lengths) * max(lengths)
    #! the columns are max(lengths) - 1, but there are B rows of them
    # ~ positions = max(lengths) - 1
    return mean * positions / sum(n - 1 for n in lengths)
    #! the other way round: fewer targets share the same sum
    # ~ return mean * sum(n - 1 for n in lengths) / positions
    #! that is the sum; divide by the number of real targets
    # ~ return mean * positions
    #! the lengths hold both marks, so a row of n tokens has n - 1 targets, not n
    # ~ return mean * positions / sum(lengths)
    #! a row of n tokens has n - 1 targets, not n, and as many inputs
    # ~ return mean * len(lengths) * max(lengths) / sum(lengths)
    #! the end is a target too: a row of n tokens has n - 1 targets, not n - 2
    # ~ return mean * positions / sum(n - 2 for n in lengths)
    #! each row has one target fewer than tokens, not all rows together
    # ~ return mean * positions / (sum(lengths) - 1)
    #! the mean is over B · T places; multiply by them first
    # ~ return mean / sum(n - 1 for n in lengths)
    #! each target counts alike; add up the targets of all rows, then divide
    # ~ return mean * sum((max(lengths) - 1) / (n - 1) for n in lengths) / len(lengths)
    #! that is the share of the pads; their loss is 0, and the sum stays
    # ~ return mean * (1 - sum(n - 1 for n in lengths) / positions)
    #! the sum stays, so divide by the share of real targets; you added that of pads
    # ~ return mean * (2 - sum(n - 1 for n in lengths) / positions)


# ---------------------------------------------------------------- questions

FIXED_TEXTS = [
    ["banana", "cab", "", "zebra"],
    ["Hello, World!\n", "how are you?", "Wow"],
    ["a"],
    ["é", "Straße", "naïve", "日本"],
    ["zyx", "cba", "a b\tc\n"],
    [],
    [""],
]


def some_texts(draw, letters="abcdeXYZ .\n", n=6, longest=9):
    "Texts of chance, as short as nothing."
    for _ in range(draw.size(1, n)):
        yield "".join(draw.random.choices(letters, k=draw.size(0, longest)))


@question("07", "CharTokenizer")
def ask_tokenizer(draw):
    def of(new, texts, tokens):
        return {
            "": None,
            "vocab_size": new.vocab_size,
            "encode": [new.encode(text) for text in texts],
            "decode": [new.decode(row) for row in tokens],
            "encode again": [new.encode(text) for text in texts[:1]],
            "decode what was encoded": [new.decode(new.encode(text)) for text in texts],
        }

    def used(texts, tokens):
        return lambda made, args, new: of(new, texts, tokens)

    def trained(texts, others, tokens):
        def look(made, args, new):
            found = {
                f"train: {name}": x for name, x in of(made.train(texts), others, tokens).items()
            }
            return {"": None, **found, "the tokenizer before, encode": new.encode("abc")}

        return look

    yield Call("the alphabet abc", ("abc",), look=used(["cab", "", "a"], [[4, 5, 6], [], [6, 4]]))
    tokens = [[BOS, 6, 5, EOS], [4, UNK, 5], [BOS, 4, EOS, PAD, PAD], [5, EOS, 6, 4], [PAD], [UNK]]
    yield Call("the alphabet xyz, special tokens", ("xyz",), look=used(["xyz"], tokens))
    yield Call("letters that it lacks", ("abc",), look=used(["abd", "?", "a b", "ABC"], []))
    yield Call("an alphabet of one letter", ("q",), look=used(["qq", "p", ""], [[4, 4], [0]]))
    yield Call("an alphabet of none", ("",), look=used(["a", ""], [[], [1, 3, 2]]))
    yield Call("capitals, spaces and line breaks", (" \nAa",), look=used(["A a\n"], [[5, 4, 7]]))
    for texts in FIXED_TEXTS:
        tokens = [[BOS, *range(4, 4 + len(set("".join(texts)))), EOS]]
        look = trained(texts, [*texts, "abc Zz?"], tokens)
        yield Call(f"train({texts!r})", ("abc",), look=look)
    for _ in range(4 * len(draw.rounds)):
        alphabet = "".join(draw.random.sample("abcdefghXYZ .,\n", draw.size(1, 12)))
        tokens = [
            [draw.size(0, 3 + len(alphabet)) for _ in range(draw.size(0, 9))] for _ in range(3)
        ]
        look = used(list(some_texts(draw)), tokens)
        yield Call(f"the alphabet {alphabet!r}", (alphabet,), look=look)
    for _ in range(4 * len(draw.rounds)):
        texts, others = list(some_texts(draw)), list(some_texts(draw))
        size = len(set("".join(texts)))
        tokens = [[draw.size(0, 3 + size) for _ in range(draw.size(0, 9))] for _ in range(3)]
        yield Call(f"train({texts!r})", ("cab",), look=trained(texts, others, tokens))


class WordTokenizer:
    "Another tokenizer: the length of each word."

    vocab_size = 30

    def encode(self, text):
        return [4 + len(word) for word in text.split()]

    def decode(self, tokens):
        return " ".join("x" * (i - 4) for i in tokens if i >= 4)


@question("07", "encode_texts")
def ask_encode_texts(draw):
    abc = CharTokenizer("abc")
    yield Call("three texts", (["cab", "a", "bb"], abc))
    yield Call("an empty text", (["", "abc", ""], abc))
    yield Call("no texts", ([], abc))
    yield Call("letters that the alphabet lacks", (["abz", "?"], abc))
    yield Call("a tokenizer of words", (["this is it", "", "why"], WordTokenizer()))
    for _ in range(5 * len(draw.rounds)):
        alphabet = "".join(draw.random.sample("abcdeXYZ .\n", draw.size(1, 9)))
        yield Call("texts of chance", (list(some_texts(draw)), CharTokenizer(alphabet)))


def some_rows(draw, shortest=0, n=5, longest=8):
    return [
        draw.tokens(draw.size(shortest, longest), high=30).tolist() for _ in range(draw.size(1, n))
    ]


@question("07", "pad_rows")
def ask_pad_rows(draw):
    rows = [[1, 5, 6, 7, 2], [1, 2], [1, 9, 2]]
    yield Call("three rows", (rows,))
    yield Call("three rows, value=-100", (rows,), dict(value=IGNORE))
    yield Call("the longest row last", (rows[::-1],))
    yield Call("one row", (rows[:1],), dict(value=7))
    yield Call("rows of the same length", ([[4, 5], [6, 7]],))
    yield Call("an empty row and another", ([[], [4, 5, 6]],))
    yield Call("empty rows", ([[], []],))
    yield Call("large numbers", ([[2**40, 4], [5]],))
    for i in range(4 * len(draw.rounds)):
        options = [{}, dict(value=IGNORE), dict(value=draw.size(-9, 9))][i % 3]
        yield Call(f"rows of chance, {options}", (some_rows(draw),), options)


@question("07", "collate")
def ask_collate(draw):
    rows = [[1, 5, 6, 7, 2], [1, 2], [1, 9, 2]]
    yield Call("three rows", (rows,))
    yield Call("the longest row last", (rows[::-1],))
    yield Call("one row", (rows[:1],))
    yield Call("rows of the same length", ([[1, 4, 2], [1, 7, 2]],))
    yield Call("a row of one token", ([[1], [1, 4, 5, 2]],))
    yield Call("rows without BOS and EOS", ([[8, 9, 10], [11, 12, 13, 14]],))
    for _ in range(5 * len(draw.rounds)):
        yield Call("rows of chance", (some_rows(draw, shortest=2),))


class Where(nn.Module):
    "A position embedding that is seen, whatever it is given."

    def forward(self, x, positions):
        if positions is None:
            return 3 * x
        return 3 * x + positions[..., None].to(x.dtype).cos()


@question("07", "Embedding")
def ask_embedding(draw):
    def learned(n=20, d_model=8):
        return layer(LearnedPositions, n, d_model)

    tokens = draw.tokens(2, 5, low=0)
    yield Call("tokens (2, 5)", (tokens,), {}, (11, 8))
    yield Call("positions without an embedding of them", (tokens, torch.arange(5)), {}, (11, 8))
    yield Call("positions 0 to 4", (tokens, torch.arange(5)), {}, (11, 8, learned()))
    yield Call("positions 7 to 11", (tokens, torch.arange(7, 12)), {}, (11, 8, learned()))
    yield Call("another position_embedding", (tokens, torch.arange(3, 8)), {}, (11, 8, Where()))
    yield Call("the same without positions", (tokens,), {}, (11, 8, Where()))
    rows = draw.tokens(2, 5, high=20)
    yield Call("positions (2, 5)", (tokens, rows), {}, (11, 8, learned()))
    yield Call("padding", (torch.tensor([[1, 4, 0, 0]]), torch.arange(4)), {}, (11, 8, learned()))
    yield Call("int32 tokens", (tokens.int(), torch.arange(5)), {}, (11, 8, learned()))
    yield Call("no tokens", (tokens[:, :0], torch.arange(0)), {}, (11, 8, learned()))
    yield Call("dropout=0.5, evaluated", (tokens, torch.arange(5)), {}, (11, 8, learned(), 0.5))
    yield Call("dropout=1.0, trained", (tokens, torch.arange(5)), {}, (11, 8, learned(), 1.0), True)
    yield Call("trained without dropout", (tokens, torch.arange(5)), {}, (11, 8, learned()), True)

    def dropped(made, args, new):
        x = new.train()(torch.zeros(40, 50, dtype=torch.int64))
        return {"": None, "the share that is dropped": (x == 0).float().mean().item()}

    sizes = (3, 8, None, 0.25)
    yield Call("dropout=0.25, trained", sizes, look=dropped, near=0.01, chance=True)

    def starts(made, args, new):
        spread = [round(p.std().item(), 3) for p in new.parameters()]
        middle = [round(p.mean().item(), 2) for p in new.parameters()]
        return {"": None, "the spread at the start": spread, "the mean at the start": middle}

    yield Call("how large vectors start", (400, 100), look=starts)
    yield Call("how large vectors start, in a narrow model", (4000, 10), look=starts)
    for _ in draw.rounds:
        n = draw.size(1, 9)
        given = draw.tokens(3, n, low=0), draw.tokens(n, high=20)
        yield Call("positions of chance", given, {}, (11, 8, learned()))


@question("07", "07.1")
def ask_my_collate(draw):
    def of(what, letters):
        rows = [[BOS, *row, EOS] for row in letters]
        return Call(f"{what}, {rows}", (rows,), look=in_two(("inputs", "targets"), whole))

    yield of("three rows", [[7, 5], [9], [6, 8, 4, 5, 7]])
    yield of("the longest row first", [[6, 8, 4, 5], [7], [9, 9]])
    yield of("one row", [[5, 4, 8]])
    yield of("rows of one length", [[4, 6], [7, 5], [8, 8], [4, 4]])
    yield of("an empty text", [[], [5, 5, 4]])
    yield of("empty texts alone", [[], []])
    yield of("a letter that the alphabet lacks", [[UNK], [5, UNK, 4]])
    for n in draw.rounds:
        of_chance = [draw.tokens(draw.size(0, 8), low=4, high=30).tolist() for _ in range(n + 1)]
        yield of("rows of chance", of_chance)


def whole(part):
    "A tensor of whole numbers, whatever their size; all else as it is."
    return part.long() if isinstance(part, torch.Tensor) and not part.is_floating_point() else part


@question("07", "07.3")
def ask_per_target(draw):
    rows = [[4, 3, 7], [9, 5, 5, 12], [6], [5, 5], [2, 11], [3, 3, 3, 8, 4]]
    for _ in range(2 * len(draw.rounds)):
        rows.append([draw.size(3, 14) for _ in range(draw.size(2, 6))])
    for i, lengths in enumerate(rows):
        mean = [1.5, 0.8, 2.25][i % 3]
        yield Call(f"mean = {mean}, lengths = {lengths}", (mean, lengths))
