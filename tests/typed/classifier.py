"""Train a classifier on labelled texts, save it, load it, and ask it."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from former_nb import (
    CharTokenizer,
    Classifier,
    TrainingConfig,
    TransformerConfig,
    fit,
    load_model,
    make_batches,
    predict,
    save_model,
)
from former_nb.data import split
from former_nb.decoding.classification import collate_labels, label_rows
from former_nb.training import exact_match

names = ["down", "up"]
texts = [f"shares {word} today" for word in ("fall", "rise", "sink", "climb")] * 8
labels = [names[i % 2] for i in range(len(texts))]
parts = split(list(zip(texts, labels, strict=True)), (0.8, 0.2), seed=0)
tokenizer = CharTokenizer.train([text for text, _ in parts[0]])
rows = [
    label_rows([text for text, _ in part], [label for _, label in part], tokenizer, names)
    for part in parts
]
train = make_batches(rows[0], 8, shuffle=True, collate=collate_labels)
valid = make_batches(rows[1], 8, collate=collate_labels)

config = TransformerConfig(tokenizer.vocab_size, 32, d_model=16, n_heads=2, n_layers=1, d_ff=32)
model = Classifier.from_config(config, n_classes=len(names))
fit(model, train, valid, TrainingConfig(epochs=1, lr=0.01), progress=False)
share: float = exact_match(model, valid)
print(f"{share:.0%} right")

with TemporaryDirectory() as place:
    folder = Path(place, "model")
    save_model(folder, model, tokenizer, labels=names)
    again, same_tokenizer, same_names = load_model(folder)
    answers: pd.DataFrame = predict(again, same_tokenizer, ["shares rise"], same_names)
print(answers["label"].tolist())
