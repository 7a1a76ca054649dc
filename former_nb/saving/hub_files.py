"""Models from the hub that are the same in every year, by their revision and their sums.

A name alone is whatever lies there today. A revision says which files are meant, and a SHA-256 says
whether these are they. A file that was cut off or exchanged is refused before anything reads it.
"""

from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import hf_hub_download

__all__ = ["HubModel", "SMOLLM2", "fetch_model"]


@dataclass(frozen=True)
class HubModel:
    "A model on the hub, at one revision."

    name: str  # with its owner
    revision: str  # 40 hexadecimal digits
    sha256: dict[str, str]  # file -> 64 hexadecimal digits
    size: int  # bytes of all files, about


SMOLLM2 = HubModel(  # Apache 2.0; Allal et al. 2025
    "HuggingFaceTB/SmolLM2-135M",
    "93efa2f097d58c2a74874c7e644dbc9b0cee75a2",
    {
        "config.json": "1d556eab73b69c7f11f64c557a2f9c6f440bd4c6b89bb2584a6b498c92603843",
        "tokenizer.json": "9ca9acddb6525a194ec8ac7a87f24fbba7232a9a15ffa1af0c1224fcd888e47c",
        "model.safetensors": "80521b40281d6ce74e35c9282c22539e75aa0ac8578892b2a59955ef78d55da1",
    },
    271_000_000,
)


def fetch_model(
    model: HubModel = SMOLLM2,
) -> Path:  # a folder with its files
    "From the hub's cache, or the hub. `OSError` without a network, `ValueError` for other files."
    import pooch

    paths = []
    for file, digits in model.sha256.items():
        try:
            path = Path(hf_hub_download(model.name, file, revision=model.revision))
        except Exception as error:  # each version of the library has its own kinds
            reason = " ".join(str(error).split())[:300]
            size = f"{model.size / 1e6:.0f} MB in all"
            raise OSError(
                f"model: expected a network or a cache that has {file} of {model.name}, {size}: "
                f"{reason}"
            ) from None
        if pooch.file_hash(path) != digits:
            raise ValueError(
                f"model: {str(path)!r} is not {file} of {model.name} as published (another "
                "SHA-256); delete it, and fetch it again"
            )
        paths.append(path)
    return paths[-1].parent
