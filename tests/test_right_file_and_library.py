"""What you type is what you import: the right file beside the library, with the same weights.

Where the source is the same but for guards, annotations and words, it has to stay so. Where it
differs, the table says why, and both have to compute the same."""

import ast
import importlib
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from former_nb.attention.dot_product import attention, attention_weights
from former_nb.attention.masks import padding_mask
from former_nb.attention.positions import Rotary
from former_nb.data.subwords import merge
from former_nb.decoding.decoding import generate
from former_nb.decoding.number_words import greedy_decode
from former_nb.grading.content import right_module, right_source
from former_nb.models.block import Block, CrossAttention, FeedForward, RMSNorm, SwiGLU
from former_nb.models.classifier import Classifier
from former_nb.models.config import TransformerConfig
from former_nb.models.encoder_decoder import EncoderDecoder
from former_nb.models.language_model import LanguageModel
from former_nb.models.modern_decoder import modern_decoder
from former_nb.training.training import batch_loss

RIGHT = right_module()
ROOT = Path(__file__).resolve().parents[1]
SAME_SOURCE = {  # definition -> where the library has it
    "MultiHeadAttention.split": "attention.multi_head",
    "MultiHeadAttention.merge": "attention.multi_head",
    "Block.__init__": "models.block",
    "Block.forward": "models.block",
    "DecoderBlock.__init__": "models.block",
}
DIFFERS = {  # definition -> why
    "attention": "PyTorch's fused kernel, and heads that share keys",
    "attention_weights": "masks of numbers, and heads that share keys",
    "MultiHeadAttention.forward": "a guard looks at what `attend` gave",
    "Embedding": "positions are handed in, and a scale for translators",
    "rotate": "a table of angles, made once in float64",
    "FeedForward": "other people's activations, and dropout of units",
    "Stack": "positions inside attention, and one function too many is refused",
    "LanguageModel": "a head of its own for other people's weights",
    "RMSNorm.forward": "PyTorch's fused kernel",
    "SwiGLU": "dropout of units, and biases for other people's weights",
    "GroupedQueryAttention": "`attention` repeats shared heads, so its forward is inherited",
    "CrossAttention": "a memory that is projected once and read many times",
    "EncoderDecoder": "a second vocabulary, and a memory that is projected once",
}


class Plain(ast.NodeTransformer):
    "A definition without annotations, docstrings and guards."

    def visit_arg(self, node):
        node.annotation = None
        return node

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        node.returns = None
        node.body = [part for part in node.body if not self.is_aside(part)]
        return node

    @staticmethod
    def is_aside(part):
        value = getattr(part, "value", None) if isinstance(part, ast.Expr) else None
        guard = isinstance(value, ast.Call) and ast.unparse(value.func).startswith("check_")
        return guard or isinstance(value, ast.Constant)


def plain_methods(source):
    "Class.method -> its plain source."
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    found[f"{node.name}.{part.name}"] = ast.unparse(Plain().visit(part))
    return found


@pytest.mark.parametrize("name, module", SAME_SOURCE.items(), ids=SAME_SOURCE)
def test_the_source_is_the_same(name, module):
    file = importlib.import_module(f"former_nb.{module}").__file__
    ours = plain_methods(Path(file).read_text(encoding="utf-8"))
    assert ours[name] == plain_methods(right_source())[name]


def loud(module):
    torch.manual_seed(0)
    for weight in module.parameters():
        nn.init.normal_(weight, std=0.4)
    return module.eval()


def numbers(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


TOKENS = torch.tensor([[1, 5, 6, 7, 2], [1, 9, 8, 2, 0]])
MASK = RIGHT.padding_mask(TOKENS)


def agree(ours, theirs, *inputs):
    with torch.no_grad():
        assert_close(ours(*inputs), theirs(*inputs), rtol=1e-4, atol=1e-5)


def test_attention_and_masks_agree():
    q, k, v = numbers(2, 3, 5, 4), numbers(2, 3, 5, 4, seed=2), numbers(2, 3, 5, 4, seed=3)
    for mask, is_causal in [(None, False), (None, True), (MASK, False), (MASK, True)]:
        agree(attention, RIGHT.attention, q, k, v, mask, is_causal)
        agree(attention_weights, RIGHT.attention_weights, q, k, mask, is_causal)
    assert padding_mask(TOKENS).equal(MASK)


def test_rotary_positions_agree():
    q, k, v = numbers(2, 3, 5, 4), numbers(2, 3, 5, 4, seed=2), numbers(2, 3, 5, 4, seed=3)
    at = torch.tensor([3, 4, 5, 9, 11])
    ours = Rotary(4, 16, base=50.0)(attention, q, k, v, None, True, positions=at)
    assert_close(ours, RIGHT.rotary(RIGHT.attention, at, 50.0)(q, k, v, None, True))


@pytest.mark.parametrize(
    "ours, theirs",
    [
        (FeedForward(8, 12), RIGHT.FeedForward(8, 12)),
        (RMSNorm(8, 1e-3), RIGHT.RMSNorm(8, 1e-3)),
        (SwiGLU(8, 12), RIGHT.SwiGLU(8, 12)),
    ],
    ids=["FeedForward", "RMSNorm", "SwiGLU"],
)
def test_parts_agree_with_weights_of_the_same_names(ours, theirs):
    ours.load_state_dict(loud(theirs).state_dict())
    agree(ours.eval(), theirs, numbers(2, 5, 8))


def test_parts_of_the_file_go_into_the_librarys_block_and_the_other_way_round():
    file, library = loud(RIGHT.make_block(8, 2, 12)), RIGHT.make_block(8, 2, 12)
    library.load_state_dict(file.state_dict())
    mixed = Block(library.attention, library.ff, library.norm_attention, library.norm_ff).eval()
    agree(mixed, file, numbers(2, 5, 8), MASK, True)
    cross, theirs = CrossAttention(8, 2), loud(RIGHT.CrossAttention(8, 2))
    cross.load_state_dict(theirs.state_dict())
    agree(cross.eval(), theirs, numbers(2, 4, 8), numbers(2, 5, 8, seed=2), MASK)


def with_tables(state):
    "The file keeps positions as a weight, the library as the table of a module."
    return {name.replace("positions", "positions.table"): t for name, t in state.items()}


CONFIG = TransformerConfig(11, 24, d_model=8, n_heads=2, n_layers=2, d_ff=12, dropout=0.0)


def test_a_generator_agrees_and_writes_the_same():
    theirs = loud(RIGHT.generator(11, 24, 8, 2, 2, 12))
    ours = LanguageModel.from_config(CONFIG).eval()
    state = with_tables(theirs.state_dict())
    ours.load_state_dict({**state, "head.weight": state["embed.tokens.weight"]})
    agree(ours, theirs, TOKENS)
    written = RIGHT.generate(theirs, TOKENS[:, :3], 9)
    assert generate(ours, TOKENS[:, :3], 9).equal(written)
    batch = RIGHT.next_token_batch([[1, 5, 6, 2], [1, 4, 2]])
    (inputs,), targets = batch
    found = batch_loss(ours, (inputs, targets.masked_fill(targets == 0, -100)))
    assert_close(found, RIGHT.batch_loss(theirs, batch))


def test_a_llama_agrees():
    theirs = loud(RIGHT.modern_decoder(11, 12, 6, 2, 2, 20, 2, 1e-3, 50.0))
    ours = modern_decoder(11, 24, 12, 6, 2, 2, 20, rope_base=50.0, eps=1e-3).eval()
    state = theirs.state_dict()
    ours.load_state_dict({**state, "head.weight": state["embed.tokens.weight"]})
    agree(ours, theirs, TOKENS)


def test_a_classifier_agrees():
    blocks = [RIGHT.make_block(8, 2, 12) for _ in range(2)]
    embed = RIGHT.Embedding(11, 8, 24)
    theirs = loud(RIGHT.Classifier(embed, RIGHT.Stack(blocks, nn.LayerNorm(8)), 8, 3))
    ours = Classifier.from_config(CONFIG, 3).eval()
    ours.load_state_dict(with_tables(theirs.state_dict()))
    agree(ours, theirs, TOKENS)


def test_a_translator_agrees_and_writes_the_same():
    theirs = loud(RIGHT.translator(11, 24, 8, 2, 2, 12))
    ours = EncoderDecoder.from_config(CONFIG).eval()
    ours.src_embed.scale = ours.tgt_embed.scale = 1.0  # the file has none
    state = {}
    for name, t in with_tables(theirs.state_dict()).items():
        for side in ("src_embed", "tgt_embed") if name.startswith("embed.") else ("",):
            state[name.replace("embed.", f"{side}.", 1) if side else name] = t
    ours.load_state_dict({**state, "head.weight": state["tgt_embed.tokens.weight"]})
    agree(ours, theirs, TOKENS, TOKENS[:, :4])
    with torch.no_grad():
        theirs.embed.tokens.weight[[0, 1, 3]] -= 9.0  # what `greedy_decode` never writes
    state["src_embed.tokens.weight"] = theirs.embed.tokens.weight
    state["tgt_embed.tokens.weight"] = theirs.embed.tokens.weight
    ours.load_state_dict({**state, "head.weight": theirs.embed.tokens.weight})
    found = greedy_decode(ours, TOKENS, 8)
    for row, other in zip(RIGHT.translate(theirs, TOKENS, 9).tolist(), found):
        assert [token for token in row if token] == other


def test_merges_agree():
    for word, pair in [("banana", ("a", "n")), ("aaaa", ("a", "a")), ("abcabc", ("b", "c"))]:
        assert merge(list(word), pair) == RIGHT.merge(list(word), pair)


def test_bleu_is_sacrebleus():
    sacrebleu = pytest.importorskip("sacrebleu")
    texts = ["the cat sat on the mat", "a dog barks at the small cat and it ran"]
    references = ["the cat sat on a mat", "a dog barks at the small cat that ran away"]
    theirs = sacrebleu.corpus_bleu(texts, [references], tokenize="none", smooth_method="none")
    ours = RIGHT.bleu([t.split() for t in texts], [r.split() for r in references])
    assert abs(ours - theirs.score) < 1e-9


def test_the_table_names_definitions_of_the_file():
    names = {node.name for node in ast.parse(right_source()).body if hasattr(node, "name")}
    assert {name.partition(".")[0] for name in DIFFERS} <= names
    assert not DIFFERS.keys() & SAME_SOURCE.keys()
