"""Train a generator on a list of words, and write with it."""

from former_nb import (
    CharTokenizer,
    LanguageModel,
    Sampling,
    TrainingConfig,
    TransformerConfig,
    fit,
    generate,
    make_batches,
    stream,
)
from former_nb.data import encode_texts
from former_nb.training import evaluate

words = ["jonas", "jone", "jonis", "janina", "jonė", "jurga"] * 8
tokenizer = CharTokenizer.train(words)
rows = encode_texts(words, tokenizer)
train = make_batches(rows, batch_size=16, shuffle=True, seed=1)
valid = make_batches(rows[:8], batch_size=16)

config = TransformerConfig(tokenizer.vocab_size, 16, d_model=16, n_heads=2, n_layers=1, d_ff=32)
model = LanguageModel.from_config(config)
history = fit(model, train, valid, TrainingConfig(steps=4, lr=0.01), progress=False)
print(history["valid"].min(), evaluate(model, valid))

how = Sampling(temperature=0.8, top_k=5, seed=0)
for name in generate(model, ["jo", "ja"], 8, how, tokenizer=tokenizer):
    print(name.capitalize())
print("".join(stream(model, "jo", 8, tokenizer=tokenizer)))
