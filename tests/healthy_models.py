"""Healthy Transformers: HEALTHY = {name: make}, make() -> (model, batch, loss, optimizer).

batch is (inputs, targets): inputs are ids (B, T), a tuple (model(*inputs)) or a mapping (model(**inputs));
or batch is itself a mapping with 'labels', and then loss is None and the model computes its own loss.
loss is a function (logits, targets) -> scalar, or None for cross-entropy on the last axis with -100 ignored.
Where a model returns an object with .logits, these are the logits.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

V, D, NH, T, B = 32, 32, 4, 12, 6
HEALTHY = {}


def healthy(f):
    HEALTHY[f.__name__] = f
    return f


def seeded(seed):
    torch.manual_seed(seed)


def chain(b=B, t=T, v=V, seed=0, low=0):
    """Second-order sequences with a little noise: a model with attention can learn them."""
    g = torch.Generator().manual_seed(1000 + seed)
    n = v - low
    x = torch.randint(0, n, (b, t), generator=g)
    for i in range(2, t):
        keep = torch.rand(b, generator=g) < 0.9
        x[:, i] = torch.where(keep, (x[:, i - 1] + 3 * x[:, i - 2] + 1) % n, x[:, i])
    return x + low


def lm_batch(seed=0, b=B, t=T, v=V, low=0):
    ids = chain(b, t + 1, v, seed, low)
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def padded(seed=0, b=B, t=T, v=V, pad=0, shortest=4):
    g = torch.Generator().manual_seed(2000 + seed)
    ids = chain(b, t, v, seed, low=pad + 3)
    n = torch.randint(shortest, t + 1, (b,), generator=g)
    n[0] = t
    n[1] = shortest
    keep = torch.arange(t)[None] < n[:, None]
    return ids.masked_fill(~keep, pad), keep


def adamw(m, lr=2e-3, **k):
    return torch.optim.AdamW([p for p in m.parameters() if p.requires_grad], lr=lr, **k)


# ---------------------------------------------------------------- Hugging Face, causal


def hf_lm(cls, cfg, seed, style="labels", **kw):
    import transformers as tr

    seeded(seed)
    config = getattr(tr, cfg)(vocab_size=V, pad_token_id=0, bos_token_id=1, eos_token_id=2, **kw)
    model = getattr(tr, cls)(config)
    ids = chain(seed=seed, low=3)
    if style == "labels":
        batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}
    elif style == "pair":
        x, y = lm_batch(seed, low=3)
        batch = (x, y)
    elif style == "mapping":
        x, y = lm_batch(seed, low=3)
        batch = ({"input_ids": x, "use_cache": False}, y)
    return model, batch, None, adamw(model)


LLAMA = dict(
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=32,
)
NODROP2 = dict(
    n_embd=32, n_layer=2, n_head=4, n_positions=32, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
)


@healthy
def hf_gpt2_eager():
    return hf_lm("GPT2LMHeadModel", "GPT2Config", 1, attn_implementation="eager", **NODROP2)


@healthy
def hf_gpt2_sdpa():
    return hf_lm(
        "GPT2LMHeadModel",
        "GPT2Config",
        2,
        "pair",
        attn_implementation="sdpa",
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=32,
    )


@healthy
def hf_gpt2_left_padded():
    """Left padding with position ids counted from the first real token."""
    model, _, _, opt = hf_lm(
        "GPT2LMHeadModel", "GPT2Config", 3, attn_implementation="sdpa", **NODROP2
    )
    ids, keep = padded(3)
    ids, keep = ids.flip(1), keep.flip(1)
    pos = (keep.long().cumsum(1) - 1).clamp(min=0)
    return (
        model,
        {
            "input_ids": ids,
            "attention_mask": keep.long(),
            "position_ids": pos,
            "labels": ids.masked_fill(~keep, -100),
        },
        None,
        opt,
    )


@healthy
def hf_gpt2_right_padded():
    model, _, _, opt = hf_lm(
        "GPT2LMHeadModel", "GPT2Config", 4, attn_implementation="eager", **NODROP2
    )
    ids, keep = padded(4)
    return (
        model,
        {"input_ids": ids, "attention_mask": keep.long(), "labels": ids.masked_fill(~keep, -100)},
        None,
        opt,
    )


@healthy
def hf_llama():
    return hf_lm(
        "LlamaForCausalLM", "LlamaConfig", 5, "mapping", attn_implementation="sdpa", **LLAMA
    )


@healthy
def hf_llama_eager_tied():
    return hf_lm(
        "LlamaForCausalLM",
        "LlamaConfig",
        6,
        attn_implementation="eager",
        tie_word_embeddings=True,
        **LLAMA,
    )


@healthy
def hf_mistral_window():
    return hf_lm(
        "MistralForCausalLM",
        "MistralConfig",
        7,
        attn_implementation="eager",
        sliding_window=4,
        **LLAMA,
    )


@healthy
def hf_qwen2():
    return hf_lm("Qwen2ForCausalLM", "Qwen2Config", 8, **LLAMA)


@healthy
def hf_qwen3():
    return hf_lm("Qwen3ForCausalLM", "Qwen3Config", 9, "pair", head_dim=8, **LLAMA)


@healthy
def hf_gemma():
    return hf_lm("GemmaForCausalLM", "GemmaConfig", 10, head_dim=8, **LLAMA)


@healthy
def hf_gemma2():
    return hf_lm(
        "Gemma2ForCausalLM",
        "Gemma2Config",
        11,
        head_dim=8,
        sliding_window=6,
        attn_implementation="eager",
        query_pre_attn_scalar=8,
        **LLAMA,
    )


@healthy
def hf_phi():
    k = dict(LLAMA, num_key_value_heads=4)
    return hf_lm("PhiForCausalLM", "PhiConfig", 12, "mapping", **k)


@healthy
def hf_gpt_neox():
    return hf_lm(
        "GPTNeoXForCausalLM",
        "GPTNeoXConfig",
        13,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=32,
    )


@healthy
def hf_opt():
    return hf_lm(
        "OPTForCausalLM",
        "OPTConfig",
        14,
        hidden_size=32,
        ffn_dim=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=32,
        word_embed_proj_dim=32,
        dropout=0.0,
    )


@healthy
def hf_bloom():
    return hf_lm("BloomForCausalLM", "BloomConfig", 15, hidden_size=32, n_layer=2, n_head=4)


@healthy
def hf_falcon():
    return hf_lm(
        "FalconForCausalLM",
        "FalconConfig",
        16,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
    )


@healthy
def hf_starcoder2():
    return hf_lm("Starcoder2ForCausalLM", "Starcoder2Config", 17, "pair", **LLAMA)


@healthy
def hf_mpt():
    return hf_lm(
        "MptForCausalLM", "MptConfig", 18, d_model=32, n_heads=4, n_layers=2, max_seq_len=32
    )


@healthy
def hf_gptj():
    return hf_lm(
        "GPTJForCausalLM",
        "GPTJConfig",
        19,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=32,
        rotary_dim=4,
    )


@healthy
def hf_mixtral():
    return hf_lm(
        "MixtralForCausalLM",
        "MixtralConfig",
        20,
        num_local_experts=4,
        num_experts_per_tok=2,
        **LLAMA,
    )


@healthy
def hf_olmo2():
    return hf_lm("Olmo2ForCausalLM", "Olmo2Config", 21, **LLAMA)


@healthy
def hf_gpt_neo_local():
    return hf_lm(
        "GPTNeoForCausalLM",
        "GPTNeoConfig",
        22,
        hidden_size=32,
        num_layers=2,
        num_heads=4,
        window_size=4,
        attention_types=[[["global", "local"], 1]],
        max_position_embeddings=32,
    )


# ---------------------------------------------------------------- Hugging Face, encoders

ENC = dict(
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=40,
    pad_token_id=0,
)


def mlm_batch(seed, share=0.25):
    ids, keep = padded(seed, b=8)
    g = torch.Generator().manual_seed(seed)
    hit = (torch.rand(ids.shape, generator=g) < share) & keep
    hit[:, 1] = True
    return {
        "input_ids": ids.masked_fill(hit, 2),
        "attention_mask": keep.long(),
        "labels": ids.masked_fill(~hit, -100),
    }


def hf_mlm(cls, cfg, seed, **kw):
    import transformers as tr

    seeded(seed)
    model = getattr(tr, cls)(getattr(tr, cfg)(vocab_size=V, **kw))
    return model, mlm_batch(seed), None, adamw(model, 3e-3)


@healthy
def hf_bert_mlm():
    return hf_mlm("BertForMaskedLM", "BertConfig", 30, attn_implementation="eager", **ENC)


@healthy
def hf_roberta_mlm():
    return hf_mlm("RobertaForMaskedLM", "RobertaConfig", 31, **ENC)


@healthy
def hf_distilbert_mlm():
    return hf_mlm(
        "DistilBertForMaskedLM",
        "DistilBertConfig",
        32,
        dim=32,
        hidden_dim=64,
        n_layers=2,
        n_heads=4,
        max_position_embeddings=32,
        pad_token_id=0,
    )


@healthy
def hf_electra_mlm():
    return hf_mlm("ElectraForMaskedLM", "ElectraConfig", 33, embedding_size=24, **ENC)


@healthy
def hf_deberta_mlm():
    return hf_mlm(
        "DebertaV2ForMaskedLM",
        "DebertaV2Config",
        34,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        **ENC,
    )


@healthy
def hf_albert_mlm_shared_layers():
    return hf_mlm("AlbertForMaskedLM", "AlbertConfig", 35, embedding_size=16, **ENC)


@healthy
def hf_bert_classifier():
    import transformers as tr

    seeded(36)
    model = tr.BertForSequenceClassification(tr.BertConfig(vocab_size=V, num_labels=3, **ENC))
    ids, keep = padded(36, b=8)
    return (
        model,
        {"input_ids": ids, "attention_mask": keep.long(), "labels": ids[:, 1] % 3},
        None,
        adamw(model),
    )


@healthy
def hf_deberta_classifier():
    import transformers as tr

    seeded(37)
    model = tr.DebertaV2ForSequenceClassification(
        tr.DebertaV2Config(vocab_size=V, num_labels=2, **ENC)
    )
    ids, keep = padded(37, b=8)
    return (
        model,
        ({"input_ids": ids, "attention_mask": keep.long()}, ids[:, 0] % 2),
        None,
        adamw(model),
    )


@healthy
def hf_distilbert_tagger():
    import transformers as tr

    seeded(38)
    model = tr.DistilBertForTokenClassification(
        tr.DistilBertConfig(
            vocab_size=V,
            dim=32,
            hidden_dim=64,
            n_layers=2,
            n_heads=4,
            max_position_embeddings=32,
            num_labels=4,
        )
    )
    ids, keep = padded(38)
    tags = ((ids + ids.roll(1, 1)) % 4).masked_fill(~keep, -100)
    tags[:, 0] = -100
    return (
        model,
        {"input_ids": ids, "attention_mask": keep.long(), "labels": tags},
        None,
        adamw(model),
    )


# ---------------------------------------------------------------- Hugging Face, sequence to sequence


def s2s_data(seed, b=B, s=10):
    ids, keep = padded(seed, b=b, t=s)
    out = ids.clone()
    for r in range(b):
        n = int(keep[r].sum())
        out[r, :n] = ids[r, :n].flip(0)
    return ids, keep, out


def s2s_mapping(seed):
    ids, keep, out = s2s_data(seed)
    return {"input_ids": ids, "attention_mask": keep.long(), "labels": out.masked_fill(~keep, -100)}


@healthy
def hf_t5():
    import transformers as tr

    seeded(40)
    model = tr.T5ForConditionalGeneration(
        tr.T5Config(
            vocab_size=V,
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
            pad_token_id=0,
            eos_token_id=1,
        )
    )
    return model, s2s_mapping(40), None, adamw(model, 3e-3)


BARTISH = dict(
    vocab_size=V,
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_ffn_dim=64,
    decoder_ffn_dim=64,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    max_position_embeddings=32,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
    forced_eos_token_id=2,
)


@healthy
def hf_bart():
    import transformers as tr

    seeded(41)
    model = tr.BartForConditionalGeneration(tr.BartConfig(**BARTISH))
    return model, s2s_mapping(41), None, adamw(model, 3e-3)


@healthy
def hf_marian():
    import transformers as tr

    seeded(42)
    model = tr.MarianMTModel(tr.MarianConfig(**dict(BARTISH, decoder_vocab_size=V)))
    return model, s2s_mapping(42), None, adamw(model, 3e-3)


@healthy
def hf_pegasus_eager():
    import transformers as tr

    seeded(43)
    model = tr.PegasusForConditionalGeneration(
        tr.PegasusConfig(attn_implementation="eager", **BARTISH)
    )
    return model, s2s_mapping(43), None, adamw(model, 3e-3)


@healthy
def hf_vit():
    import transformers as tr

    seeded(44)
    model = tr.ViTForImageClassification(
        tr.ViTConfig(
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            image_size=8,
            patch_size=2,
            num_channels=3,
            num_labels=4,
        )
    )
    x, y = images(44)
    return model, ({"pixel_values": x}, y), None, adamw(model)


# ---------------------------------------------------------------- nn.Transformer parts


def sinusoid(t, d):
    pos = torch.arange(t)[:, None].float()
    div = torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d))
    pe = torch.zeros(t, d)
    pe[:, 0::2] = torch.sin(pos * div)
    pe[:, 1::2] = torch.cos(pos * div)
    return pe


class EncoderLM(nn.Module):
    """nn.TransformerEncoder with a causal mask."""

    def __init__(self, norm_first=False, batch_first=True, dropout=0.0, v=V, d=D, scale=True):
        super().__init__()
        self.d, self.batch_first, self.scale = d, batch_first, scale
        self.embed = nn.Embedding(v, d)
        nn.init.normal_(self.embed.weight, std=0.1)
        self.register_buffer("pe", sinusoid(64, d))
        layer = nn.TransformerEncoderLayer(
            d, NH, 2 * d, dropout, batch_first=batch_first, norm_first=norm_first
        )
        self.encoder = nn.TransformerEncoder(
            layer, 2, norm=nn.LayerNorm(d) if norm_first else None, enable_nested_tensor=False
        )
        for p in self.encoder.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
        self.decoder = nn.Linear(d, v)

    def embedded(self, ids):
        return self.embed(ids) * math.sqrt(self.d) + self.pe[: ids.size(1)]

    def mask(self, ids):
        return nn.Transformer.generate_square_subsequent_mask(ids.size(1))

    def forward(self, ids):
        x = self.embedded(ids)
        if not self.batch_first:
            x = x.transpose(0, 1)
        x = self.encoder(x, mask=self.mask(ids))
        if not self.batch_first:
            x = x.transpose(0, 1)
        return self.decoder(x)


@healthy
def nn_encoder_causal_postnorm():
    seeded(50)
    m = EncoderLM()
    return m, lm_batch(50), None, adamw(m)


@healthy
def nn_encoder_causal_prenorm():
    seeded(51)
    m = EncoderLM(norm_first=True, dropout=0.1)
    return m, lm_batch(51), None, adamw(m)


@healthy
def nn_encoder_time_first():
    seeded(52)
    m = EncoderLM(batch_first=False)
    return m, lm_batch(52), None, torch.optim.Adam(m.parameters(), lr=2e-3)


class Bidirectional(nn.Module):
    """nn.TransformerEncoder over whole sequences with learned positions; every position answers."""

    def __init__(self, out=V, v=V, d=D, norm_first=True, dropout=0.0):
        super().__init__()
        self.tok, self.pos = nn.Embedding(v, d), nn.Embedding(32, d)
        layer = nn.TransformerEncoderLayer(
            d, NH, 2 * d, dropout, activation="gelu", batch_first=True, norm_first=norm_first
        )
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        for p in self.body.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
        self.norm = nn.LayerNorm(d)
        self.out = nn.Linear(d, out)

    def embedded(self, ids):
        return self.tok(ids) + self.pos(torch.arange(ids.size(1)))

    def forward(self, ids, keep=None):
        x = self.body(self.embedded(ids), src_key_padding_mask=None if keep is None else ~keep)
        return self.out(self.norm(x))


@healthy
def nn_encoder_copy():
    """Bidirectional copy: the targets are the inputs."""
    seeded(53)
    m = Bidirectional()
    ids = chain(seed=53)
    return m, (ids, ids.clone()), None, adamw(m)


@healthy
def nn_encoder_reverse():
    seeded(54)
    m = Bidirectional(norm_first=False)
    ids = chain(seed=54)
    return m, (ids, ids.flip(1)), None, adamw(m)


@healthy
def nn_encoder_sort():
    seeded(55)
    m = Bidirectional()
    ids = chain(seed=55)
    return m, (ids, ids.sort(1).values), None, adamw(m)


@healthy
def tagger_padded():
    seeded(56)
    m = Bidirectional(out=5, dropout=0.1)
    ids, keep = padded(56)
    tags = ((ids + ids.roll(1, 1)) % 5).masked_fill(~keep, -100)
    return m, ((ids, keep), tags), None, adamw(m)


@healthy
def own_masked_lm():
    """Masked tokens are replaced by id 2, only these are asked for."""
    seeded(57)
    m = Bidirectional()
    d = mlm_batch(57)
    return m, ((d["input_ids"], d["attention_mask"].bool()), d["labels"]), None, adamw(m)


class DecoderOnMemory(nn.Module):
    """nn.TransformerDecoder that reads an embedded source."""

    def __init__(self, d=D):
        super().__init__()
        self.src, self.tgt = nn.Embedding(V, d), nn.Embedding(V, d)
        self.pos = nn.Parameter(torch.randn(32, d) * 0.1)
        layer = nn.TransformerDecoderLayer(d, NH, 2 * d, 0.0, batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoder(layer, 2, norm=nn.LayerNorm(d))
        for p in self.decoder.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
        self.head = nn.Linear(d, V)

    def memory(self, src):
        return self.src(src) + self.pos[: src.size(1)]

    def mask(self, tgt):
        return torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool).triu(1)

    def forward(self, src, tgt):
        h = self.tgt(tgt) + self.pos[: tgt.size(1)]
        return self.head(self.decoder(h, self.memory(src), tgt_mask=self.mask(tgt)))


def pair_batch(seed, pads=False):
    """((src, tgt), targets): reverse the source; target starts with 1."""
    if pads:
        src, keep, out = s2s_data(seed)
        tgt = torch.cat([torch.ones_like(out[:, :1]), out[:, :-1]], 1)
        return (src, tgt), out.masked_fill(~keep, -100)
    src = chain(t=10, seed=seed, low=3)
    out = src.flip(1)
    return (src, torch.cat([torch.ones_like(out[:, :1]), out[:, :-1]], 1)), out


@healthy
def nn_decoder_with_memory():
    seeded(58)
    m = DecoderOnMemory()
    return m, pair_batch(58), None, adamw(m)


class Seq2Seq(nn.Module):
    """nn.Transformer, in the manner of the translation tutorial; id 0 is padding."""

    def __init__(self, d=D, dropout=0.0):
        super().__init__()
        self.d = d
        self.src_tok, self.tgt_tok = (
            nn.Embedding(V, d, padding_idx=0),
            nn.Embedding(V, d, padding_idx=0),
        )
        self.register_buffer("pe", sinusoid(64, d))
        self.transformer = nn.Transformer(d, NH, 2, 2, 2 * d, dropout, batch_first=True)
        self.generator = nn.Linear(d, V)

    def enc_in(self, src):
        return self.src_tok(src) * math.sqrt(self.d) + self.pe[: src.size(1)]

    def dec_in(self, tgt):
        return self.tgt_tok(tgt) * math.sqrt(self.d) + self.pe[: tgt.size(1)]

    def masks(self, src, tgt):
        causal = torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool).triu(1)
        return dict(
            tgt_mask=causal,
            src_key_padding_mask=src == 0,
            tgt_key_padding_mask=tgt == 0,
            memory_key_padding_mask=src == 0,
        )

    def forward(self, src, tgt):
        return self.generator(
            self.transformer(self.enc_in(src), self.dec_in(tgt), **self.masks(src, tgt))
        )


@healthy
def nn_transformer_seq2seq():
    seeded(59)
    m = Seq2Seq()
    return m, pair_batch(59), None, adamw(m)


@healthy
def nn_transformer_seq2seq_padded():
    seeded(60)
    m = Seq2Seq(dropout=0.1)
    return m, pair_batch(60, pads=True), None, adamw(m)


class Attend(nn.Module):
    """Multi-head attention by hand, for self- and cross-attention."""

    def __init__(self, d=D, h=NH):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def heads(self, x):
        b, t, d = x.shape
        return x.view(b, t, self.h, d // self.h).transpose(1, 2)

    def forward(self, x, context, mask=None):
        q, k, v = self.heads(self.q(x)), self.heads(self.k(context)), self.heads(self.v(context))
        s = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(q.size(-1))
        if mask is not None:
            s = s.masked_fill(~mask, torch.finfo(s.dtype).min)
        y = torch.einsum("bhij,bhjd->bhid", s.softmax(-1), v)
        return self.o(y.transpose(1, 2).flatten(2))


class EncLayer(nn.Module):
    def __init__(self, d=D):
        super().__init__()
        self.att = Attend(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, mask):
        x = self.n1(x + self.att(x, x, mask))
        return self.n2(x + self.ff(x))


class DecLayer(nn.Module):
    def __init__(self, d=D):
        super().__init__()
        self.self_att, self.cross = Attend(d), Attend(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
        self.n1, self.n2, self.n3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, memory, mask, memory_mask):
        x = self.n1(x + self.self_att(x, x, mask))
        x = self.n2(x + self.cross(x, memory, memory_mask))
        return self.n3(x + self.ff(x))


class OwnEncDec(nn.Module):
    """The annotated Transformer, small."""

    def __init__(self, d=D, enc=EncLayer, dec=DecLayer):
        super().__init__()
        self.d = d
        self.src_embed, self.tgt_embed = nn.Embedding(V, d), nn.Embedding(V, d)
        self.register_buffer("pe", sinusoid(64, d))
        self.encoder = nn.ModuleList(enc(d) for _ in range(2))
        self.decoder = nn.ModuleList(dec(d) for _ in range(2))
        self.proj = nn.Linear(d, V)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def encode(self, src, src_mask):
        x = self.src_embed(src) * math.sqrt(self.d) + self.pe[: src.size(1)]
        for layer in self.encoder:
            x = layer(x, src_mask)
        return x

    def decode(self, tgt, memory, src_mask):
        t = tgt.size(1)
        x = self.tgt_embed(tgt) * math.sqrt(self.d) + self.pe[:t]
        mask = torch.ones(t, t, dtype=torch.bool).tril()
        for layer in self.decoder:
            x = layer(x, memory, mask, src_mask)
        return x

    def forward(self, src, tgt):
        src_mask = (src != 0)[:, None, None, :]
        return self.proj(self.decode(tgt, self.encode(src, src_mask), src_mask))


@healthy
def own_encoder_decoder():
    seeded(61)
    m = OwnEncDec()
    return (
        m,
        pair_batch(61, pads=True),
        None,
        torch.optim.Adam(m.parameters(), 2e-3, betas=(0.9, 0.98), eps=1e-9),
    )


# ---------------------------------------------------------------- miniature GPTs


class NanoAttn(nn.Module):
    """Fused causal attention, in the manner of nanoGPT."""

    def __init__(self, d, h, drop=0.0):
        super().__init__()
        self.h, self.drop = h, drop
        self.c_attn = nn.Linear(d, 3 * d)
        self.c_proj = nn.Linear(d, d)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.c_attn(x).split(c, dim=2)
        q, k, v = (z.view(b, t, self.h, c // self.h).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.drop if self.training else 0.0, is_causal=True
        )
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))


class NanoBlock(nn.Module):
    def __init__(self, d, h, drop=0.0, attn=NanoAttn):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = attn(d, h, drop)
        self.mlp = nn.Sequential(
            nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d), nn.Dropout(drop)
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Nano(nn.Module):
    def __init__(
        self,
        v=V,
        d=D,
        h=NH,
        n=2,
        block_size=32,
        drop=0.0,
        attn=NanoAttn,
        block=NanoBlock,
        tied=True,
    ):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(v, d), nn.Embedding(block_size, d)
        self.drop = nn.Dropout(drop)
        self.h = nn.ModuleList(block(d, h, drop, attn) for _ in range(n))
        self.ln_f = nn.LayerNorm(d)
        self.lm_head = nn.Linear(d, v, bias=False)
        if tied:
            self.lm_head.weight = self.wte.weight
        self.apply(self._init)
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * n))

    def _init(self, m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.02)
            if getattr(m, "bias", None) is not None:
                nn.init.zeros_(m.bias)

    def embedded(self, idx):
        return self.drop(self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device)))

    def forward(self, idx):
        x = self.embedded(idx)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


@healthy
def nanogpt():
    seeded(70)
    m = Nano()
    return m, lm_batch(70), None, adamw(m, 3e-3, betas=(0.9, 0.95))


@healthy
def nanogpt_decay_groups():
    seeded(71)
    m = Nano()
    decay = [p for p in m.parameters() if p.dim() >= 2]
    rest = [p for p in m.parameters() if p.dim() < 2]
    opt = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=3e-3
    )
    return m, lm_batch(71), None, opt


@healthy
def nanogpt_dropout_half():
    seeded(72)
    m = Nano(drop=0.5)
    return m, lm_batch(72), None, adamw(m, 3e-3)


@healthy
def nanogpt_dropout_tenth_sgd():
    seeded(73)
    m = Nano(drop=0.1, tied=False)
    return m, lm_batch(73), None, torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)


@healthy
def nanogpt_label_smoothing():
    seeded(74)
    m = Nano()
    return (
        m,
        lm_batch(74),
        (lambda z, y: F.cross_entropy(z.flatten(0, 1), y.flatten(), label_smoothing=0.1)),
        adamw(m),
    )


@healthy
def nanogpt_z_loss():
    seeded(75)
    m = Nano()

    def loss(logits, y):
        return (
            F.cross_entropy(logits.flatten(0, 1), y.flatten())
            + 1e-4 * logits.logsumexp(-1).pow(2).mean()
        )

    return m, lm_batch(75), loss, adamw(m)


class SoftCapped(Nano):
    def forward(self, idx):
        return 15 * torch.tanh(super().forward(idx) / 15)


@healthy
def nanogpt_soft_cap():
    seeded(76)
    m = SoftCapped()
    return m, lm_batch(76), None, adamw(m)


@healthy
def nanogpt_zero_head():
    seeded(77)
    m = Nano(tied=False)
    nn.init.zeros_(m.lm_head.weight)
    return m, lm_batch(77), None, adamw(m)


class LogProbs(Nano):
    def forward(self, idx):
        return F.log_softmax(super().forward(idx), dim=-1)


@healthy
def nanogpt_log_softmax_nll():
    seeded(78)
    m = LogProbs()
    return m, lm_batch(78), (lambda z, y: F.nll_loss(z.flatten(0, 1), y.flatten())), adamw(m)


@healthy
def nanogpt_loss_shifts_inside():
    """The targets are the ids themselves; the loss shifts them."""
    seeded(79)
    m = Nano()
    ids = chain(seed=79)

    def loss(logits, ids):
        return F.cross_entropy(logits[:, :-1].reshape(-1, V), ids[:, 1:].reshape(-1))

    return m, (ids, ids.clone()), loss, adamw(m)


@healthy
def nanogpt_padded_targets():
    seeded(80)
    m = Nano()
    ids, keep = padded(80, t=T + 1)
    y = ids.masked_fill(~keep, -100)[:, 1:].contiguous()
    return m, (ids[:, :-1].contiguous(), y), None, adamw(m)


@healthy
def nanogpt_pad_id_ignored_by_loss():
    """Pads are id 0 in the targets too, and the loss ignores id 0."""
    seeded(81)
    m = Nano()
    ids, _ = padded(81, t=T + 1)
    return (
        m,
        (ids[:, :-1].contiguous(), ids[:, 1:].contiguous()),
        (lambda z, y: F.cross_entropy(z.flatten(0, 1), y.flatten(), ignore_index=0)),
        adamw(m),
    )


@healthy
def nanogpt_trained_50_steps():
    seeded(82)
    m = Nano()
    x, y = lm_batch(82)
    opt = adamw(m, 3e-3)
    for _ in range(50):
        opt.zero_grad()
        F.cross_entropy(m(x).flatten(0, 1), y.flatten()).backward()
        opt.step()
    opt.zero_grad()
    return m, (x, y), None, opt


@healthy
def nanogpt_half_frozen():
    """A trained model whose first block and position table are frozen on purpose."""
    m, (x, y), _, _ = nanogpt_trained_50_steps()
    for p in list(m.wpe.parameters()) + list(m.h[0].parameters()):
        p.requires_grad_(False)
    return m, lm_batch(83), None, adamw(m)


@healthy
def nanogpt_prompt_not_in_loss():
    """Fine-tuning on answers only: the prompt's targets are -100."""
    seeded(84)
    m = Nano()
    x, y = lm_batch(84)
    y[:, :5] = -100
    return m, (x, y), None, adamw(m)


@healthy
def nanogpt_bf16_autocast():
    seeded(85)

    class Autocast(Nano):
        def forward(self, idx):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                z = super().forward(idx)
            return z.float()

    m = Autocast()
    return m, lm_batch(85), None, adamw(m)


@healthy
def nanogpt_checkpointed():
    from torch.utils.checkpoint import checkpoint

    seeded(86)

    class Checkpointed(Nano):
        def forward(self, idx):
            x = self.embedded(idx)
            for block in self.h:
                x = checkpoint(block, x, use_reentrant=False)
            return self.lm_head(self.ln_f(x))

    m = Checkpointed(drop=0.1)
    return m, lm_batch(86), None, adamw(m)


class MinAttn(nn.Module):
    """Eager causal attention with a buffer, in the manner of minGPT."""

    def __init__(self, d=D, h=NH, size=32):
        super().__init__()
        self.key, self.query, self.value, self.proj = (nn.Linear(d, d) for _ in range(4))
        self.h, self.d = h, d
        self.register_buffer("tri", torch.tril(torch.ones(size, size)).view(1, 1, size, size))

    def split(self, x):
        b, t, c = x.shape
        return x.view(b, t, self.h, c // self.h).transpose(1, 2)

    def merge(self, y):
        b, h, t, e = y.shape
        return y.transpose(1, 2).contiguous().view(b, t, h * e)

    def scores(self, q, k):
        return (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))

    def masked(self, att):
        t = att.size(-1)
        return att.masked_fill(self.tri[:, :, :t, :t] == 0, float("-inf"))

    def weights(self, att):
        return F.softmax(self.masked(att), dim=-1)

    def forward(self, x):
        k, q, v = self.split(self.key(x)), self.split(self.query(x)), self.split(self.value(x))
        return self.proj(self.merge(self.weights(self.scores(q, k)) @ v))


class MinBlock(nn.Module):
    def __init__(self, d=D, h=NH, attn=MinAttn, norm=nn.LayerNorm):
        super().__init__()
        self.ln1, self.ln2 = norm(d), norm(d)
        self.attn = attn(d, h)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        x = x + self.mlp(self.ln2(x))
        return x


class MinGPT(nn.Module):
    def __init__(self, v=V, d=D, h=NH, n=2, attn=MinAttn, block=MinBlock, norm=nn.LayerNorm):
        super().__init__()
        self.tok_emb = nn.Embedding(v, d)
        self.pos_emb = nn.Parameter(torch.zeros(1, 32, d))
        self.blocks = nn.Sequential(*[block(d, h, attn, norm) for _ in range(n)])
        self.ln_f = norm(d)
        self.head = nn.Linear(d, v, bias=False)
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, std=0.02)

    def embedded(self, idx):
        return self.tok_emb(idx) + self.pos_emb[:, : idx.size(1)]

    def forward(self, idx):
        return self.head(self.ln_f(self.blocks(self.embedded(idx))))


@healthy
def mingpt():
    seeded(90)
    m = MinGPT()
    return m, lm_batch(90), None, adamw(m, 3e-3)


@healthy
def mingpt_post_norm():
    class Post(MinBlock):
        def forward(self, x):
            x = self.ln1(x + self.attn(x))
            return self.ln2(x + self.mlp(x))

    seeded(91)
    m = MinGPT(block=Post)
    return m, lm_batch(91), None, adamw(m, 2e-3)


@healthy
def mingpt_parallel_block():
    class Parallel(MinBlock):
        def forward(self, x):
            h = self.ln1(x)
            return x + self.attn(h) + self.mlp(self.ln2(x))

    seeded(92)
    m = MinGPT(block=Parallel)
    return m, lm_batch(92), None, adamw(m, 2e-3)


class ReZeroBlock(nn.Module):
    def __init__(self, d=D, h=NH, attn=MinAttn, norm=None):
        super().__init__()
        self.attn = attn(d, h)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.alpha = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        x = x + self.alpha * self.attn(x)
        return x + self.alpha * self.mlp(x)


@healthy
def rezero():
    seeded(93)
    m = MinGPT(block=ReZeroBlock)
    return m, lm_batch(93), None, adamw(m, 5e-3)


class NoPositions(MinGPT):
    def embedded(self, idx):
        return self.tok_emb(idx)


@healthy
def no_positions_causal():
    seeded(94)
    m = NoPositions()
    del m.pos_emb
    return m, lm_batch(94), None, adamw(m, 3e-3)


class AlibiAttn(MinAttn):
    def scores(self, q, k):
        t = q.size(-2)
        slopes = torch.tensor([2.0 ** (-8 * (i + 1) / self.h) for i in range(self.h)])
        dist = torch.arange(t)[None, :] - torch.arange(t)[:, None]
        return super().scores(q, k) + slopes.view(1, -1, 1, 1) * dist.clamp(max=0)


@healthy
def alibi():
    seeded(95)
    m = NoPositions(attn=AlibiAttn)
    del m.pos_emb
    return m, lm_batch(95), None, adamw(m, 3e-3)


class RelBiasAttn(MinAttn):
    def __init__(self, d=D, h=NH, size=32):
        super().__init__(d, h, size)
        self.rel = nn.Embedding(8, h)

    def scores(self, q, k):
        t = q.size(-2)
        d = (torch.arange(t)[:, None] - torch.arange(t)[None, :]).clamp(0, 7)
        return super().scores(q, k) + self.rel(d).permute(2, 0, 1)[None]


@healthy
def t5_relative_bias():
    seeded(96)
    m = NoPositions(attn=RelBiasAttn)
    del m.pos_emb
    return m, lm_batch(96), None, adamw(m, 3e-3)


class WindowAttn(MinAttn):
    def masked(self, att):
        t = att.size(-1)
        i, j = torch.arange(t)[:, None], torch.arange(t)[None]
        return att.masked_fill(~((j <= i) & (i - j < 4)), float("-inf"))


@healthy
def sliding_window():
    seeded(97)
    m = MinGPT(attn=WindowAttn)
    return m, lm_batch(97), None, adamw(m, 3e-3)


class SinkAttn(MinAttn):
    """Softmax with one more in the denominator (a head may look at nothing)."""

    def weights(self, att):
        att = self.masked(att)
        z = torch.zeros_like(att[..., :1])
        return torch.cat([att, z], -1).softmax(-1)[..., :-1]


@healthy
def attention_sink():
    seeded(98)
    m = MinGPT(attn=SinkAttn)
    return m, lm_batch(98), None, adamw(m, 3e-3)


@healthy
def shared_block_on_purpose():
    """Universal Transformer: one block run three times."""

    class Universal(MinGPT):
        def forward(self, idx):
            x = self.embedded(idx)
            for _ in range(3):
                x = self.blocks(x)
            return self.head(self.ln_f(x))

    seeded(99)
    m = Universal(n=1)
    return m, lm_batch(99), None, adamw(m, 3e-3)


# ---------------------------------------------------------------- Llama, nanochat, x-transformers manners


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


def rotary(t, e, start=0):
    f = 1.0 / (10000 ** (torch.arange(0, e, 2).float() / e))
    a = torch.outer(torch.arange(start, start + t).float(), f)
    return torch.cat([a, a], -1).cos(), torch.cat([a, a], -1).sin()


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class GroupedAttn(nn.Module):
    def __init__(self, d=D, h=NH, kv=2):
        super().__init__()
        self.h, self.kv, self.e = h, kv, d // h
        self.wq = nn.Linear(d, h * self.e, bias=False)
        self.wk = nn.Linear(d, kv * self.e, bias=False)
        self.wv = nn.Linear(d, kv * self.e, bias=False)
        self.wo = nn.Linear(h * self.e, d, bias=False)

    def turn(self, q, k, start=0):
        cos, sin = rotary(q.size(-2), self.e, start)
        return rotate(q, cos, sin), rotate(k, cos, sin)

    def forward(self, x, past=None):
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.h, self.e).transpose(1, 2)
        k = self.wk(x).view(b, t, self.kv, self.e).transpose(1, 2)
        v = self.wv(x).view(b, t, self.kv, self.e).transpose(1, 2)
        q, k = self.turn(q, k)
        k, v = (z.repeat_interleave(self.h // self.kv, 1) for z in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(b, t, -1))


class SwiGLU(nn.Module):
    def __init__(self, d=D):
        super().__init__()
        self.gate, self.up = nn.Linear(d, 2 * d, bias=False), nn.Linear(d, 2 * d, bias=False)
        self.down = nn.Linear(2 * d, d, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class LlamaBlock(nn.Module):
    def __init__(self, d=D, attn=GroupedAttn, ff=SwiGLU, norm=RMSNorm):
        super().__init__()
        self.attention_norm, self.ffn_norm = norm(d), norm(d)
        self.attention, self.feed_forward = attn(d), ff(d)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class MiniLlama(nn.Module):
    def __init__(self, v=V, d=D, n=2, attn=GroupedAttn, ff=SwiGLU, norm=RMSNorm, block=LlamaBlock):
        super().__init__()
        self.tok_embeddings = nn.Embedding(v, d)
        self.layers = nn.ModuleList(block(d, attn, ff, norm) for _ in range(n))
        self.norm = norm(d)
        self.output = nn.Linear(d, v, bias=False)
        nn.init.normal_(self.tok_embeddings.weight, std=0.05)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        for layer in self.layers:
            h = layer(h)
        return self.output(self.norm(h))


@healthy
def mini_llama():
    seeded(110)
    m = MiniLlama()
    return m, lm_batch(110), None, adamw(m, 3e-3)


@healthy
def mini_llama_multi_query():
    seeded(111)
    m = MiniLlama(attn=lambda d: GroupedAttn(d, kv=1))
    return m, lm_batch(111), None, adamw(m, 3e-3)


class QKNormAttn(GroupedAttn):
    def turn(self, q, k, start=0):
        q, k = super().turn(q, k, start)
        return F.rms_norm(q, (self.e,)), F.rms_norm(k, (self.e,))


@healthy
def qk_norm():
    seeded(112)
    m = MiniLlama(attn=QKNormAttn)
    return m, lm_batch(112), None, adamw(m, 3e-3)


class ReluSquared(nn.Module):
    def __init__(self, d=D):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)

    def forward(self, x):
        return self.c_proj(F.relu(self.c_fc(x)).square())


class BareNorm(nn.Module):
    def __init__(self, d):
        super().__init__()

    def forward(self, x):
        return F.rms_norm(x, (x.size(-1),))


class NanoChat(MiniLlama):
    """Output projections and head start at zero, norms have no weights, logits are soft-capped."""

    def __init__(self):
        super().__init__(attn=QKNormAttn, ff=ReluSquared, norm=BareNorm)
        nn.init.normal_(self.tok_embeddings.weight, std=1.0)
        nn.init.zeros_(self.output.weight)
        for b in self.layers:
            nn.init.zeros_(b.attention.wo.weight)
            nn.init.zeros_(b.feed_forward.c_proj.weight)

    def forward(self, tokens):
        h = F.rms_norm(self.tok_embeddings(tokens), (D,))
        for layer in self.layers:
            h = layer(h)
        z = self.output(self.norm(h))
        return 15 * torch.tanh(z / 15)


@healthy
def nanochat():
    seeded(113)
    m = NanoChat()
    rest = [p for n, p in m.named_parameters() if "tok_emb" not in n]
    opt = torch.optim.AdamW(
        [{"params": m.tok_embeddings.parameters(), "lr": 2e-2}, {"params": rest, "lr": 3e-3}],
        weight_decay=0.0,
    )
    return m, lm_batch(113), None, opt


class Experts(nn.Module):
    """Top-1 of 8 experts, most of which may be unused in a small batch."""

    def __init__(self, d=D, n=8, k=1):
        super().__init__()
        self.k = k
        self.router = nn.Linear(d, n, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d)) for _ in range(n)
        )

    def forward(self, x):
        flat = x.reshape(-1, x.size(-1))
        w, which = self.router(flat).softmax(-1).topk(self.k, -1)
        out = torch.zeros_like(flat)
        for i, e in enumerate(self.experts):
            row, slot = (which == i).nonzero(as_tuple=True)
            if len(row):
                out = out.index_add(0, row, e(flat[row]) * w[row, slot, None])
        return out.view_as(x)


@healthy
def mixture_top1():
    seeded(114)
    m = MiniLlama(ff=Experts)
    return m, lm_batch(114, b=4, t=10), None, adamw(m, 3e-3)


@healthy
def mixture_top2_many_experts():
    seeded(115)
    m = MiniLlama(ff=lambda d: Experts(d, n=24, k=2))
    return m, lm_batch(115, b=4, t=10), None, adamw(m, 3e-3)


class LoRA(nn.Module):
    def __init__(self, base, r=4, alpha=8):
        super().__init__()
        self.base, self.scale = base, alpha / r
        self.lora_a = nn.Parameter(torch.randn(r, base.in_features) / math.sqrt(base.in_features))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, r))

    def forward(self, x):
        return self.base(x) + (x @ self.lora_a.T @ self.lora_b.T) * self.scale


def pretrained(make_model, seed, steps=40):
    m = make_model()
    x, y = lm_batch(seed)
    opt = adamw(m, 3e-3)
    for _ in range(steps):
        opt.zero_grad()
        F.cross_entropy(m(x).flatten(0, 1), y.flatten()).backward()
        opt.step()
    m.zero_grad()
    return m


@healthy
def lora():
    seeded(116)
    m = pretrained(MiniLlama, 116)
    for p in m.parameters():
        p.requires_grad_(False)
    for b in m.layers:
        b.attention.wq, b.attention.wv = LoRA(b.attention.wq), LoRA(b.attention.wv)
        b.feed_forward.down = LoRA(b.feed_forward.down)
    return m, lm_batch(216), None, adamw(m, 1e-2)


class XAttention(nn.Module):
    """In the manner of x-transformers: einsum heads wider than d, gated output."""

    def __init__(self, d, heads=3, dim_head=12):
        super().__init__()
        inner = heads * dim_head
        self.heads, self.scale = heads, dim_head**-0.5
        self.to_q, self.to_k, self.to_v = (nn.Linear(d, inner, bias=False) for _ in range(3))
        self.to_out = nn.Sequential(nn.Linear(inner, 2 * d), nn.GLU())

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (
            f(x).unflatten(-1, (self.heads, -1)).permute(0, 2, 1, 3)
            for f in (self.to_q, self.to_k, self.to_v)
        )
        sim = torch.einsum("bhid,bhjd->bhij", q * self.scale, k)
        causal = torch.ones(n, n, dtype=torch.bool).triu(1)
        attn = sim.masked_fill(causal, -torch.finfo(sim.dtype).max).softmax(-1)
        out = torch.einsum("bhij,bhjd->bhid", attn, v).permute(0, 2, 1, 3).flatten(2)
        return self.to_out(out)


class XTransformer(nn.Module):
    def __init__(self, d=36, depth=2, attn=XAttention, v=V):
        super().__init__()
        self.token_emb = nn.Embedding(v, d)
        nn.init.kaiming_normal_(self.token_emb.weight)
        self.pos_emb = nn.Embedding(32, d)
        nn.init.normal_(self.pos_emb.weight, std=0.02)
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            self.layers.append(nn.ModuleList([nn.LayerNorm(d), attn(d)]))
            self.layers.append(
                nn.ModuleList(
                    [
                        nn.LayerNorm(d),
                        nn.Sequential(
                            nn.Linear(d, 2 * d), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * d, d)
                        ),
                    ]
                )
            )
        self.final_norm = nn.LayerNorm(d)
        self.to_logits = nn.Linear(d, v)

    def forward(self, ids):
        x = (
            self.token_emb(ids)
            + self.pos_emb(torch.arange(ids.shape[1])) * self.token_emb.embedding_dim**-0.5
        )
        for norm, fn in self.layers:
            x = x + fn(norm(x))
        return self.to_logits(self.final_norm(x))


@healthy
def x_transformer():
    seeded(117)
    m = XTransformer()
    return m, lm_batch(117), None, adamw(m, 3e-3)


class LinearAttn(nn.Module):
    """Causal linear attention with elu + 1."""

    def __init__(self, d, heads=4, dim_head=8):
        super().__init__()
        self.qkv, self.o, self.h = (
            nn.Linear(d, 3 * heads * dim_head),
            nn.Linear(heads * dim_head, d),
            heads,
        )

    def forward(self, x):
        q, k, v = (z.unflatten(-1, (self.h, -1)) for z in self.qkv(x).chunk(3, -1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        s = torch.einsum("bthd,bthe->bthde", k, v).cumsum(1)
        z = torch.einsum("bthd,bthd->bth", q, k.cumsum(1))
        return self.o((torch.einsum("bthd,bthde->bthe", q, s) / z[..., None]).flatten(2))


@healthy
def linear_attention():
    seeded(118)
    m = XTransformer(attn=LinearAttn)
    return m, lm_batch(118), None, adamw(m, 3e-3)


class PrefixLM(MinGPT):
    """The first four tokens see one another; the rest is causal; the loss leaves the prefix out."""

    def __init__(self):
        super().__init__()
        for b in self.blocks:
            b.attn.tri[..., :4, :4] = 1


@healthy
def prefix_lm():
    seeded(119)
    m = PrefixLM()
    x, y = lm_batch(119)
    y[:, :3] = -100
    return m, (x, y), None, adamw(m, 3e-3)


class Packed(nn.Module):
    """Two documents in a row: attention within a document, positions start anew."""

    def __init__(self, d=D):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, d), nn.Embedding(32, d)
        self.att = nn.ModuleList(Attend(d) for _ in range(2))
        self.ff = nn.ModuleList(SwiGLU(d) for _ in range(2))
        self.n = nn.ModuleList(nn.LayerNorm(d) for _ in range(5))
        self.head = nn.Linear(d, V)

    def forward(self, ids, doc):
        t = ids.size(1)
        same = (doc[:, :, None] == doc[:, None, :]) & torch.ones(t, t, dtype=torch.bool).tril()
        pos = same.sum(-1) - 1
        x = self.tok(ids) + self.pos(pos)
        for i in range(2):
            h = self.n[2 * i](x)
            x = x + self.att[i](h, h, same[:, None])
            x = x + self.ff[i](self.n[2 * i + 1](x))
        return self.head(self.n[4](x))


@healthy
def packed_documents():
    seeded(120)
    m = Packed()
    a, b = chain(t=7, seed=120), chain(t=7, seed=121)
    ids = torch.cat([a[:, :-1], b[:, :-1]], 1)
    y = torch.cat([a[:, 1:], b[:, 1:]], 1)
    doc = torch.tensor([0] * 6 + [1] * 6).expand(B, -1).contiguous()
    return m, ((ids, doc), y), None, adamw(m, 3e-3)


class CachedAttn(GroupedAttn):
    def offset(self, past):
        return 0 if past is None else past[0].size(2)

    def attend(self, q, k, v):
        t, s = q.size(2), k.size(2)
        mask = torch.ones(t, s, dtype=torch.bool).tril(s - t)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    def forward(self, x, past=None):
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.h, self.e).transpose(1, 2)
        k = self.wk(x).view(b, t, self.kv, self.e).transpose(1, 2)
        v = self.wv(x).view(b, t, self.kv, self.e).transpose(1, 2)
        q, k = self.turn(q, k, self.offset(past))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        kk, vv = (z.repeat_interleave(self.h // self.kv, 1) for z in (k, v))
        return self.wo(self.attend(q, kk, vv).transpose(1, 2).reshape(b, t, -1)), (k, v)


class CachedLM(nn.Module):
    """forward(input_ids, past_key_values=None, use_cache=False), as Hugging Face's models have it."""

    def __init__(self, d=D, attn=CachedAttn):
        super().__init__()
        self.embed = nn.Embedding(V, d)
        self.attns = nn.ModuleList(attn(d) for _ in range(2))
        self.ffs = nn.ModuleList(SwiGLU(d) for _ in range(2))
        self.n1, self.n2 = (nn.ModuleList(RMSNorm(d) for _ in range(2)) for _ in range(2))
        self.norm, self.lm_head = RMSNorm(d), nn.Linear(d, V, bias=False)
        nn.init.normal_(self.embed.weight, std=0.1)

    def forward(self, input_ids, past_key_values=None, use_cache=False):
        from transformers.modeling_outputs import CausalLMOutputWithPast

        x, kept = self.embed(input_ids), []
        for i in range(2):
            y, kv = self.attns[i](
                self.n1[i](x), None if past_key_values is None else past_key_values[i]
            )
            kept.append(kv)
            x = x + y
            x = x + self.ffs[i](self.n2[i](x))
        return CausalLMOutputWithPast(
            logits=self.lm_head(self.norm(x)), past_key_values=tuple(kept) if use_cache else None
        )


@healthy
def kv_cache():
    seeded(121)
    m = CachedLM()
    return m, lm_batch(121), None, adamw(m, 3e-3)


# ---------------------------------------------------------------- classifiers and floats


class Classifier(nn.Module):
    """CLS (id 1 in front) or mean pooling, padding id 0, nn.TransformerEncoder inside."""

    def __init__(self, pool="cls", classes=3, d=D, norm_first=False, dropout=0.0):
        super().__init__()
        self.pool = pool
        self.tok, self.pos = (
            nn.Embedding(V, d, padding_idx=0),
            nn.Parameter(torch.randn(32, d) * 0.1),
        )
        layer = nn.TransformerEncoderLayer(
            d, NH, 2 * d, dropout, batch_first=True, norm_first=norm_first
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        for p in self.encoder.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
        self.fc = nn.Linear(d, classes)

    def padding(self, ids):
        return ids == 0

    def pooled(self, x, ids):
        if self.pool == "cls":
            return x[:, 0]
        keep = (ids != 0).unsqueeze(-1).float()
        return (x * keep).sum(1) / keep.sum(1).clamp(min=1)

    def forward(self, ids):
        x = self.tok(ids) + self.pos[: ids.size(1)]
        x = self.encoder(x, src_key_padding_mask=self.padding(ids))
        return self.fc(self.pooled(x, ids))


def class_batch(seed, b=8, t=T, classes=3):
    ids, keep = padded(seed, b=b, t=t, shortest=3)
    ids[:, 0] = 1
    return ids, (ids[:, 1] + ids[:, 2]) % classes


@healthy
def classifier_cls():
    seeded(130)
    m = Classifier("cls")
    return m, class_batch(130), None, adamw(m)


@healthy
def classifier_mean_pool():
    seeded(131)
    m = Classifier("mean", norm_first=True, dropout=0.1)
    return m, class_batch(131), None, adamw(m)


@healthy
def classifier_binary_bce():
    """One logit and binary cross-entropy with logits."""
    seeded(132)
    m = Classifier("mean", classes=1)
    x, y = class_batch(132, classes=2)
    return (
        m,
        (x, y.float()),
        (lambda z, y: F.binary_cross_entropy_with_logits(z.squeeze(-1), y)),
        adamw(m),
    )


def images(seed, b=8):
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(b) % 4
    x = torch.randn(b, 3, 8, 8, generator=g) * 0.5
    for i in range(b):
        r, c = divmod(int(y[i]), 2)
        x[i, :, 4 * r : 4 * r + 4, 4 * c : 4 * c + 4] += 1.5
    return x, y


class TinyViT(nn.Module):
    def __init__(self, d=D, p=2):
        super().__init__()
        self.patch = nn.Conv2d(3, d, p, p)
        self.cls = nn.Parameter(torch.zeros(1, 1, d))
        self.pos = nn.Parameter(torch.randn(1, 17, d) * 0.02)
        layer = nn.TransformerEncoderLayer(
            d, NH, 2 * d, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.enc = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(d), enable_nested_tensor=False)
        self.head = nn.Linear(d, 4)

    def patches(self, img):
        return self.patch(img).flatten(2).transpose(1, 2)

    def forward(self, img):
        x = self.patches(img)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        return self.head(self.enc(x)[:, 0])


@healthy
def vision_transformer():
    seeded(133)
    m = TinyViT()
    return m, images(133), None, adamw(m)


def series(seed, b=8, t=T):
    g = torch.Generator().manual_seed(seed)
    f = 0.3 + torch.rand(b, 1, generator=g)
    ph = 6 * torch.rand(b, 1, generator=g)
    w = torch.sin(f * torch.arange(t + 1) + ph) + 0.02 * torch.randn(b, t + 1, generator=g)
    return w[:, :-1, None].contiguous(), w[:, 1:, None].contiguous()


class Forecaster(nn.Module):
    """Causal next-value regressor on floats (B, T, 1)."""

    def __init__(self, d=24):
        super().__init__()
        self.inp, self.out = nn.Linear(1, d), nn.Linear(d, 1)
        self.register_buffer("pe", sinusoid(32, d))
        layer = nn.TransformerEncoderLayer(d, 4, 2 * d, 0.0, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def mask(self, t):
        return torch.full((t, t), float("-inf")).triu(1)

    def forward(self, x):
        t = x.size(1)
        return self.out(self.enc(self.inp(x) + self.pe[:t], mask=self.mask(t)))


@healthy
def series_forecaster():
    seeded(134)
    m = Forecaster()
    return m, series(134), F.mse_loss, adamw(m)


class WindowRegressor(nn.Module):
    """One number from a whole window of several channels."""

    def __init__(self, d=24, channels=3):
        super().__init__()
        self.inp = nn.Linear(channels, d)
        self.pos = nn.Parameter(torch.randn(32, d) * 0.1)
        layer = nn.TransformerEncoderLayer(d, 4, 2 * d, 0.0, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 1))

    def forward(self, x):
        return self.out(self.enc(self.inp(x) + self.pos[: x.size(1)]).mean(1)).squeeze(-1)


def window_batch(seed, b=8, t=T):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(b, t, 3, generator=g)
    return x, x[:, 3:6, 0].mean(1) + 0.5 * x[:, -1, 1]


@healthy
def window_regressor():
    seeded(135)
    m = WindowRegressor()
    return m, window_batch(135), F.mse_loss, adamw(m)


@healthy
def last_token_classifier():
    """A causal model whose answer is read at the last real token."""

    class LastToken(MinGPT):
        def forward(self, idx):
            x = self.ln_f(self.blocks(self.embedded(idx)))
            last = (idx != 0).sum(1) - 1
            return self.head(x[torch.arange(len(idx)), last])

    seeded(136)
    m = LastToken()
    m.head = nn.Linear(D, 3)
    x, y = class_batch(136)
    return m, (x, y), None, adamw(m, 3e-3)
