"""Train a translator on pairs, and translate."""

from former_nb import (
    CharTokenizer,
    EncoderDecoder,
    TrainingConfig,
    TransformerConfig,
    fit,
    make_batches,
    translate,
)
from former_nb.data import number_pairs, split
from former_nb.inspection.translation import pair_rows
from former_nb.models.encoder_decoder import collate_pairs

pairs = number_pairs()["train"][:200]
train_pairs, valid_pairs = split(pairs, (0.9, 0.1), seed=0)
tokenizer = CharTokenizer.train([text for pair in train_pairs for text in pair])
train = make_batches(pair_rows(train_pairs, tokenizer, 64), 32, True, collate=collate_pairs)
valid = make_batches(pair_rows(valid_pairs, tokenizer, 64), 32, collate=collate_pairs)

config = TransformerConfig(tokenizer.vocab_size, 64, d_model=16, n_heads=2, n_layers=1, d_ff=32)
model = EncoderDecoder.from_config(config)
memory = model.encode(next(iter(train))[0][0])
print(memory.shape, model.config)
fit(model, train, valid, TrainingConfig(steps=2), progress=False)
for answer in translate(model, tokenizer, ["eins", "zwei"], num_beams=2, max_new_tokens=9):
    print(answer.text.upper(), answer.score)
