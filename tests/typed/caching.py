"""Write with a cache by hand, and save what was written by."""

from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from former_nb import beam_search, generate, load_model, save_model
from former_nb.decoding import KVCache, greedy
from former_nb.models import LanguageModel

model, tokenizer, labels = load_model("names")
prompt = torch.tensor([tokenizer.encode("jo")[:-1]])

cache = KVCache(n_layers=model.config.n_layers)
with torch.no_grad():
    logits = model(prompt, cache, cache.positions(prompt.shape[1]))
    for _ in range(3):
        token = greedy(logits[:, -1])[:, None]
        logits = model(token, cache, cache.positions(1))
print(cache.length)

tokens = generate(model, prompt, 5, cache=KVCache(model.config.n_layers))
print(tokenizer.decode(tokens[0].tolist()))
for beam in beam_search(model, prompt, num_beams=2, max_new_tokens=5):
    print(beam)

with TemporaryDirectory() as place:
    save_model(Path(place) / "names", model, tokenizer)
    again = LanguageModel.from_pretrained(Path(place) / "names")
print(again.head.weight.shape, again.embed.tokens.num_embeddings)
