"""Planted faults: BROKEN = {name: (make, what)}, make() -> (model, batch, loss, optimizer) as in healthy_models.

Every entry is a healthy base from healthy_models with one mistake that people really make.
"""

import copy
import math
import os
import sys
from types import MethodType

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from healthy_models import (  # noqa: E402
    BARTISH,
    ENC,
    LLAMA,
    NODROP2,
    D,
    NH,
    T,
    V,
    AlibiAttn,
    Bidirectional,
    CachedAttn,
    CachedLM,
    Classifier,
    DecLayer,
    DecoderOnMemory,
    EncoderLM,
    Experts,
    Forecaster,
    GroupedAttn,
    LlamaBlock,
    LoRA,
    MinAttn,
    MinBlock,
    MinGPT,
    MiniLlama,
    Nano,
    NanoAttn,
    NanoBlock,
    NoPositions,
    OwnEncDec,
    ReZeroBlock,
    RMSNorm,
    Seq2Seq,
    SwiGLU,
    TinyViT,
    WindowAttn,
    WindowRegressor,
    XAttention,
    XTransformer,
    adamw,
    chain,
    class_batch,
    hf_lm,
    images,
    lm_batch,
    mlm_batch,
    padded,
    pair_batch,
    pretrained,
    rotary,
    rotate,
    s2s_mapping,
    seeded,
    series,
    sinusoid,
    window_batch,
)

BROKEN = {}


def broken(what):
    def keep(f):
        BROKEN[f.__name__] = (f, what)
        return f

    return keep


def lm(seed, make_model, lr=3e-3, **k):
    seeded(seed)
    m = make_model()
    return m, lm_batch(seed, **k), None, adamw(m, lr)


def flat_ce(z, y, **k):
    return F.cross_entropy(z.reshape(-1, z.size(-1)), y.reshape(-1), **k)


# ================================================================ nanoGPT (fused attention)


@broken("the fused attention is called without is_causal=True: every position sees the future")
def nano_not_causal():
    class A(NanoAttn):
        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (z.view(b, t, self.h, -1).transpose(1, 2) for z in self.c_attn(x).split(c, 2))
            y = F.scaled_dot_product_attention(q, k, v)
            return self.c_proj(y.transpose(1, 2).reshape(b, t, c))

    return lm(1, lambda: Nano(attn=A))


@broken(
    "after attention the heads are merged with a view, without the transpose: heads and time are mixed"
)
def nano_merge_without_transpose():
    class A(NanoAttn):
        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (z.view(b, t, self.h, -1).transpose(1, 2) for z in self.c_attn(x).split(c, 2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.c_proj(y.contiguous().view(b, t, c))

    return lm(2, lambda: Nano(attn=A))


@broken(
    "q, k, v are split with view(B, heads, T, e) in place of view(B, T, heads, e).transpose(1, 2)"
)
def nano_split_without_transpose():
    class A(NanoAttn):
        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (z.reshape(b, self.h, t, c // self.h) for z in self.c_attn(x).split(c, 2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.c_proj(y.transpose(1, 2).reshape(b, t, c))

    return lm(3, lambda: Nano(attn=A))


@broken(
    "heads missing a transpose before the fused attention: it attends among heads (B, T, H, e), not over time"
)
def nano_attends_over_heads():
    class A(NanoAttn):
        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (z.view(b, t, self.h, -1) for z in self.c_attn(x).split(c, 2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.c_proj(y.reshape(b, t, c))

    return lm(4, lambda: Nano(attn=A))


@broken("targets are the inputs, unshifted, and the loss doesn't shift")
def nano_targets_unshifted():
    m, (x, y), loss, opt = lm(5, Nano)
    return m, (x, x.clone()), loss, opt


@broken("targets already shifted, and the loss shifts them again")
def nano_targets_shifted_twice():
    m, b, _, opt = lm(6, Nano)
    return m, b, (lambda z, y: flat_ce(z[:, :-1], y[:, 1:])), opt


@broken("targets shifted the other way: each position is asked for the previous token")
def nano_targets_shifted_backwards():
    m, _, _, opt = lm(7, Nano)
    ids = chain(t=T + 1, seed=7)
    return m, (ids[:, 1:].contiguous(), ids[:, :-1].contiguous()), None, opt


@broken("targets rolled along the batch (dims=0) in place of time: they belong to another sequence")
def nano_targets_rolled_along_batch():
    m, (x, _), _, opt = lm(8, Nano)
    return m, (x, x.roll(-1, 0)), None, opt


@broken(
    "position embeddings are added after the last block, not before the first (blocks have no order)"
)
def nano_positions_after_blocks():
    class M(Nano):
        def forward(self, idx):
            x = self.wte(idx)
            for b in self.h:
                x = b(x)
            x = x + self.wpe(torch.arange(idx.size(1)))
            return self.lm_head(self.ln_f(x))

    return lm(9, M)


@broken(
    "positions count along the batch: every sequence gets one constant vector in place of positions"
)
def nano_positions_along_batch():
    class M(Nano):
        def embedded(self, idx):
            return self.wte(idx) + self.wpe(torch.arange(idx.size(0)))[:, None]

    return lm(10, M)


@broken("position embeddings are random anew at every call (torch.randn in forward)")
def nano_positions_random():
    class M(Nano):
        def embedded(self, idx):
            return self.wte(idx) + torch.randn(idx.size(1), D)

    return lm(11, M)


@broken("position index clamped to 3: all later positions share one embedding")
def encoder_positions_clamped():
    class M(Bidirectional):
        def embedded(self, ids):
            return self.tok(ids) + self.pos(torch.arange(ids.size(1)).clamp(max=3))

    seeded(12)
    m = M()
    ids = chain(seed=12)
    return m, (ids, ids.flip(1)), None, adamw(m)


@broken("[block] * n: all layers are one and the same block by accident")
def nano_one_block_shared():
    def make():
        m = Nano(n=1)
        m.h = nn.ModuleList([m.h[0]] * 3)
        return m

    return lm(13, make)


@broken("blocks live in a plain Python list: the optimizer doesn't see them")
def nano_blocks_in_list():
    def make():
        m = Nano()
        blocks = list(m.h)
        del m.h
        m.h = blocks
        return m

    return lm(14, make)


@broken("no residual around attention and MLP")
def nano_no_residual():
    class Bl(NanoBlock):
        def forward(self, x):
            return self.mlp(self.ln_2(self.attn(self.ln_1(x))))

    return lm(15, lambda: Nano(block=Bl, n=4))


@broken(
    "the MLP's residual starts from the block's input: attention reaches the stream only through the MLP"
)
def nano_residual_from_block_input():
    class Bl(NanoBlock):
        def forward(self, x):
            y = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(y))

    return lm(16, lambda: Nano(block=Bl))


@broken("the block returns attention's input: the attention output is computed and dropped")
def nano_attention_dropped():
    class Bl(NanoBlock):
        def forward(self, x):
            y = x + self.attn(self.ln_1(x))  # noqa: F841
            return x + self.mlp(self.ln_2(x))

    return lm(17, lambda: Nano(block=Bl))


@broken(
    "the loop overwrites its output: every block gets the embeddings, only the last block counts"
)
def nano_blocks_read_embeddings():
    class M(Nano):
        def forward(self, idx):
            x = self.embedded(idx)
            for b in self.h:
                out = b(x)
            return self.lm_head(self.ln_f(out))

    return lm(18, lambda: M(n=3))


@broken("the output head reads the token embeddings, not the blocks' output")
def nano_head_on_embeddings():
    class M(Nano):
        def forward(self, idx):
            tok = self.embedded(idx)
            x = tok
            for b in self.h:
                x = b(x)
            return self.lm_head(self.ln_f(tok))

    return lm(19, lambda: M(tied=False))


@broken("softmax in forward, then cross-entropy on probabilities")
def nano_softmax_before_cross_entropy():
    class M(Nano):
        def forward(self, idx):
            return super().forward(idx).softmax(-1)

    return lm(20, M)


@broken("ReLU on the logits")
def nano_relu_on_logits():
    class M(Nano):
        def forward(self, idx):
            return F.relu(super().forward(idx))

    return lm(21, M)


@broken(
    "x.detach() between the blocks: the first block and embeddings get no gradient through them"
)
def nano_detached_between_blocks():
    class M(Nano):
        def forward(self, idx):
            x = self.embedded(idx)
            for b in self.h:
                x = b(x.detach())
            return self.lm_head(self.ln_f(x))

    return lm(22, lambda: M(tied=False))


@broken("the embeddings are computed under torch.no_grad(): token and position tables never learn")
def nano_embeddings_no_grad():
    class M(Nano):
        @torch.no_grad()
        def embedded(self, idx):
            return super().embedded(idx)

    return lm(23, lambda: M(tied=False))


@broken("learning rate 0 (a warmup that was never stepped)")
def nano_lr_zero():
    m, b, loss, _ = lm(24, Nano)
    opt = adamw(m, 1e-3)
    torch.optim.lr_scheduler.LambdaLR(opt, lambda s: s / 100)
    return m, b, loss, opt


@broken("learning rate 10 with AdamW")
def nano_lr_enormous():
    return lm(25, Nano, lr=10.0)


@broken("weight_decay=100 (meant 0.1): weights shrink by a third at every step")
def nano_weight_decay_enormous():
    m, b, loss, _ = lm(26, Nano)
    return m, b, loss, adamw(m, 3e-3, weight_decay=100.0)


@broken(
    "the optimizer holds the parameters of a copy made before (deepcopy): this model never moves"
)
def nano_optimizer_of_a_copy():
    m, b, loss, opt = lm(27, Nano)
    return copy.deepcopy(m), b, loss, opt


@broken("the head was replaced after the optimizer was made: the new head isn't in it")
def nano_head_replaced_after_optimizer():
    m, b, loss, opt = lm(28, lambda: Nano(tied=False))
    m.lm_head = nn.Linear(D, V, bias=False)
    return m, b, loss, opt


@broken("nn.Dropout(0.95): the keep probability was passed as the drop probability")
def nano_dropout_keep_prob():
    return lm(29, lambda: Nano(drop=0.95))


@broken("F.dropout without training=self.training: dropout stays on in evaluation")
def nano_dropout_in_eval():
    class Bl(NanoBlock):
        def forward(self, x):
            x = x + F.dropout(self.attn(self.ln_1(x)), 0.3)
            return x + F.dropout(self.mlp(self.ln_2(x)), 0.3)

    return lm(30, lambda: Nano(block=Bl))


@broken("dropout_p=0.3 given to the fused attention also in evaluation")
def nano_sdpa_dropout_in_eval():
    class A(NanoAttn):
        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (z.view(b, t, self.h, -1).transpose(1, 2) for z in self.c_attn(x).split(c, 2))
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3, is_causal=True)
            return self.c_proj(y.transpose(1, 2).reshape(b, t, c))

    return lm(31, lambda: Nano(attn=A))


@broken("dropout on the logits")
def nano_dropout_on_logits():
    class M(Nano):
        def forward(self, idx):
            return self.drop(super().forward(idx))

    return lm(32, lambda: M(drop=0.4))


@broken("forward calls self.train(): dropout can't be switched off")
def nano_train_in_forward():
    class M(Nano):
        def forward(self, idx):
            self.train()
            return super().forward(idx)

    return lm(33, lambda: M(drop=0.3))


@broken("weights drawn with std=2 in place of 0.02")
def nano_init_std_2():
    def make():
        m = Nano()
        for p in m.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=2.0)
        return m

    return lm(34, make)


@broken("all weights initialised with zeros")
def nano_init_zeros():
    def make():
        m = Nano(tied=False)
        for p in m.parameters():
            nn.init.zeros_(p)
        return m

    return lm(35, make)


@broken("all weight matrices filled with one constant: units never differ")
def nano_init_constant():
    def make():
        m = Nano(tied=False)
        for n, p in m.named_parameters():
            if p.dim() > 1 and "w" != n[0]:
                nn.init.constant_(p, 0.02)
        return m

    return lm(36, make)


@broken("a new nn.Linear (the MLP's output layer) is made in forward at each call")
def nano_layer_made_in_forward():
    class Bl(NanoBlock):
        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + nn.Linear(4 * D, D)(self.mlp[:2](self.ln_2(x)))

    return lm(37, lambda: Nano(block=Bl))


@broken("x += ... in place on a tensor that LayerNorm saved: backward raises")
def nano_inplace_residual():
    class Bl(NanoBlock):
        def forward(self, x):
            x += self.attn(self.ln_1(x))
            x += self.mlp(self.ln_2(x))
            return x

    return lm(38, lambda: Nano(block=Bl))


@broken("the embedding table itself is scaled in place at every call: it grows with each forward")
def nano_table_scaled_in_place():
    class M(Nano):
        def embedded(self, idx):
            with torch.no_grad():
                self.wte.weight.mul_(math.sqrt(D) / 4)
            return super().embedded(idx)

    return lm(39, M)


@broken("a gradient hook on every parameter adds all former gradients (they are never cleared)")
def nano_hook_accumulates():
    def make():
        m = Nano()
        for p in m.parameters():
            store = torch.zeros_like(p)
            p.register_hook(lambda g, s=store: s.add_(g).clone())
        return m

    return lm(40, make)


@broken(
    "a clipping hook multiplies the blocks' gradients by zero (int division of the clip factor)"
)
def nano_hook_zeroes():
    def make():
        m = Nano()
        for p in m.h.parameters():
            p.register_hook(lambda g: g * (1 // 2))
        return m

    return lm(41, make)


@broken("the final LayerNorm has eps=1e6 in place of 1e-6: its output is nearly 0")
def nano_norm_eps_1e6():
    def make():
        m = Nano(tied=False)
        m.ln_f = nn.LayerNorm(D, eps=1e6)
        return m

    return lm(42, make)


@broken("no nonlinearity in the MLP: two linear layers in a row")
def nano_no_activation():
    class Bl(NanoBlock):
        def __init__(self, *a):
            super().__init__(*a)
            self.mlp = nn.Sequential(self.mlp[0], self.mlp[2], self.mlp[3])

    return lm(43, lambda: Nano(block=Bl))


@broken(
    "the final norm's result isn't assigned: self.ln_f(x) has no effect, its weights are unused"
)
def nano_final_norm_dropped():
    class M(Nano):
        def forward(self, idx):
            x = self.embedded(idx)
            for b in self.h:
                x = b(x)
            self.ln_f(x)
            return self.lm_head(x)

    return lm(44, M)


@broken("parameters in bfloat16 and lr 1e-5: the updates are below the weights' resolution")
def nano_pure_bf16_small_lr():
    class M(Nano):
        def forward(self, idx):
            return super().forward(idx).float()

    seeded(45)
    m = M().bfloat16()
    return m, lm_batch(45), None, torch.optim.SGD(m.parameters(), lr=1e-5)


@broken("token ids pass through a table of 8 rows (idx.clamp(max=7)): most tokens are the same")
def nano_ids_clamped():
    class M(Nano):
        def embedded(self, idx):
            return super().embedded(idx.clamp(max=7))

    return lm(46, M)


@broken("loss = nll_loss on probabilities (softmax without log): the loss is negative")
def nano_nll_without_log():
    m, b, _, opt = lm(47, Nano)
    return m, b, (lambda z, y: F.nll_loss(z.softmax(-1).flatten(0, 1), y.flatten())), opt


@broken("log_softmax over time (dim=1) in place of the vocabulary")
def nano_log_softmax_over_time():
    m, b, _, opt = lm(48, Nano)
    return m, b, (lambda z, y: F.nll_loss(F.log_softmax(z, dim=1).flatten(0, 1), y.flatten())), opt


@broken(
    "logits.view(B, V, T) in place of transpose(1, 2) before cross-entropy: vocabulary and time mixed"
)
def nano_loss_view_for_transpose():
    m, b, _, opt = lm(49, Nano)
    return m, b, (lambda z, y: F.cross_entropy(z.reshape(z.size(0), z.size(2), z.size(1)), y)), opt


@broken(
    "the loss is rebuilt with torch.tensor(loss.item(), requires_grad=True): no gradient reaches the model"
)
def nano_loss_rebuilt():
    m, b, _, opt = lm(50, Nano)
    return m, b, (lambda z, y: torch.tensor(flat_ce(z, y).item(), requires_grad=True)), opt


@broken("loss summed over all tokens, with SGD lr 0.5")
def nano_loss_sum_huge_lr():
    m, b, _, _ = lm(51, lambda: Nano(tied=False))
    return (
        m,
        b,
        (lambda z, y: flat_ce(z, y, reduction="sum")),
        torch.optim.SGD(m.parameters(), lr=0.5, momentum=0.9),
    )


@broken("-log(softmax(logits * 1000)): probabilities underflow to 0, the loss is infinite")
def nano_log_of_underflow():
    m, b, _, opt = lm(52, Nano)
    return m, b, (lambda z, y: -(z * 1000).softmax(-1).gather(-1, y[..., None]).log().mean()), opt


@broken("pads (id 0) are in the loss: targets hold 0, not -100, and nothing is ignored")
def nano_pads_in_loss():
    m, _, _, opt = lm(53, Nano)
    ids, _ = padded(53, t=T + 1)
    return m, (ids[:, :-1].contiguous(), ids[:, 1:].contiguous()), None, opt


@broken("ignore_index=7, a real token, is left out of the loss")
def nano_ignores_real_token():
    m, _, _, opt = lm(54, Nano)
    ids = chain(t=T + 1, seed=54, v=12) + 2
    return (
        m,
        (ids[:, :-1].contiguous(), ids[:, 1:].contiguous()),
        (lambda z, y: flat_ce(z, y, ignore_index=7)),
        opt,
    )


@broken("the loss is taken with the wrong sign (log-likelihood is minimised)")
def nano_loss_wrong_sign():
    m, b, _, opt = lm(55, Nano)
    return m, b, (lambda z, y: -flat_ce(z, y)), opt


@broken("all targets are -100: the loss is NaN")
def nano_all_targets_ignored():
    m, (x, y), loss, opt = lm(56, Nano)
    return m, (x, torch.full_like(y, -100)), loss, opt


@broken(
    "reentrant checkpointing of blocks whose input needs no gradient (frozen embeddings): blocks get none"
)
def nano_reentrant_checkpoint():
    from torch.utils.checkpoint import checkpoint

    class M(Nano):
        def forward(self, idx):
            x = self.embedded(idx)
            for b in self.h:
                x = checkpoint(b, x, use_reentrant=True)
            return self.lm_head(self.ln_f(x))

    seeded(57)
    m = M(tied=False)
    m.wte.weight.requires_grad_(False)
    m.wpe.weight.requires_grad_(False)
    return m, lm_batch(57), None, adamw(m)


# ================================================================ minGPT (eager attention)


def mingpt_with(seed, **over):
    cls = type("A", (MinAttn,), over)
    return lm(seed, lambda: MinGPT(attn=cls))


@broken("scores multiplied by sqrt(e) in place of divided, on normal-sized weights")
def min_scale_multiplied():
    def make():
        m = MinGPT(
            attn=type(
                "A",
                (MinAttn,),
                {"scores": lambda s, q, k: (q @ k.transpose(-2, -1)) * k.size(-1) ** 0.5},
            )
        )
        for b in m.blocks:
            nn.init.xavier_uniform_(b.attn.query.weight)
            nn.init.xavier_uniform_(b.attn.key.weight)
        return m

    return lm(100, make)


@broken("softmax over the queries (dim=-2) in place of the keys")
def min_softmax_over_queries():
    return mingpt_with(
        101,
        masked=lambda s, a: a.masked_fill(s.tri[:, :, : a.size(-1), : a.size(-1)] == 0, -1e9),
        weights=lambda s, a: F.softmax(s.masked(a), dim=-2),
    )


@broken("softmax over the heads (dim=1)")
def min_softmax_over_heads():
    return mingpt_with(
        102,
        weights=lambda s, a: F.softmax(
            a.masked_fill(s.tri[:, :, : a.size(-1), : a.size(-1)] == 0, -1e9), dim=1
        ),
    )


@broken(
    "mask applied after the softmax by multiplication, without renormalising: the future is in the denominator"
)
def min_mask_after_softmax():
    return mingpt_with(
        103, weights=lambda s, a: F.softmax(a, -1) * s.tri[:, :, : a.size(-1), : a.size(-1)]
    )


@broken("mask filled with 1e-9 in place of -1e9: masks nothing")
def min_mask_small_number():
    return mingpt_with(
        104, masked=lambda s, a: a.masked_fill(s.tri[:, :, : a.size(-1), : a.size(-1)] == 0, 1e-9)
    )


@broken("masked_fill where the mask is 1: the past is hidden, last row is all -inf, NaN")
def min_mask_inverted_nan():
    return mingpt_with(
        105,
        masked=lambda s, a: a.masked_fill(
            s.tri[:, :, : a.size(-1), : a.size(-1)] == 1, float("-inf")
        ),
    )


@broken("triu in place of tril: each position sees itself and the future only")
def min_mask_transposed():
    return mingpt_with(
        106,
        masked=lambda s, a: a.masked_fill(
            s.tri[:, :, : a.size(-1), : a.size(-1)].mT == 0, float("-inf")
        ),
    )


@broken("tril(diagonal=1): each position sees one future token, the one it's asked for")
def min_mask_diagonal_1():
    return mingpt_with(
        107,
        masked=lambda s, a: a.masked_fill(
            torch.ones(a.size(-1), a.size(-1)).tril(1) == 0, float("-inf")
        ),
    )


@broken(
    "tril(diagonal=-1) with -1e9: a position doesn't see itself, the first sees everything evenly"
)
def min_mask_diagonal_minus_1():
    return mingpt_with(
        108,
        masked=lambda s, a: a.masked_fill(torch.ones(a.size(-1), a.size(-1)).tril(-1) == 0, -1e9),
    )


@broken("sigmoid in place of softmax: attention weights don't add up to 1")
def min_sigmoid_for_softmax():
    return mingpt_with(109, weights=lambda s, a: torch.sigmoid(s.masked(a)))


@broken("softmax twice in the attention: weights nearly uniform, masked places get weight again")
def min_softmax_twice():
    return mingpt_with(110, weights=lambda s, a: F.softmax(F.softmax(s.masked(a), -1), -1))


@broken("scores masked but never put through a softmax (masked with 0, used as raw weights)")
def min_no_softmax():
    return mingpt_with(
        111, weights=lambda s, a: a.masked_fill(s.tri[:, :, : a.size(-1), : a.size(-1)] == 0, 0.0)
    )


@broken("values come from the key projection; self.value is unused")
def min_values_from_keys():
    def forward(self, x):
        k, q, v = self.split(self.key(x)), self.split(self.query(x)), self.split(self.key(x))
        return self.proj(self.merge(self.weights(self.scores(q, k)) @ v))

    return mingpt_with(112, forward=forward)


@broken("heads mixed with the batch: view(B*H, T, e) straight from (B, T, C)")
def min_heads_mixed_with_batch():
    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            f(x).view(b * self.h, t, c // self.h) for f in (self.query, self.key, self.value)
        )
        a = (q @ k.mT / math.sqrt(c // self.h)).masked_fill(
            self.tri[0, :, :t, :t] == 0, float("-inf")
        )
        y = (a.softmax(-1) @ v).view(self.h, b, t, c // self.h)
        return self.proj(y.permute(1, 2, 0, 3).reshape(b, t, c))

    return mingpt_with(113, forward=forward)


@broken("attention under torch.no_grad (the whole score computation): query and key never learn")
def min_scores_no_grad():
    def scores(self, q, k):
        with torch.no_grad():
            return MinAttn.scores(self, q, k)

    return mingpt_with(114, scores=scores)


@broken("hard attention by argmax (one-hot of the best key): query and key get no gradient")
def min_argmax_attention():
    return mingpt_with(
        115, weights=lambda s, a: F.one_hot(s.masked(a).argmax(-1), a.size(-1)).float()
    )


@broken(
    "the key projection shares the query's Linear by accident: scores are symmetric, self.key is gone"
)
def min_query_is_key():
    class A(MinAttn):
        def __init__(self, d, h):
            super().__init__(d, h)
            self.key = self.query

    return lm(116, lambda: MinGPT(attn=A))


@broken("LayerNorm over time in place of features (transposed): the norm leaks the future")
def min_norm_over_time():
    class N(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.ln = nn.LayerNorm(T)

        def forward(self, x):
            return self.ln(x.transpose(1, 2)).transpose(1, 2)

    return lm(117, lambda: MinGPT(norm=N))


@broken("LayerNorm over (T, C) together: one mean per sequence, the future leaks")
def min_norm_over_time_and_features():
    class N(nn.LayerNorm):
        def __init__(self, d):
            super().__init__((T, d))

    return lm(118, lambda: MinGPT(norm=N))


@broken("BatchNorm1d in place of LayerNorm: statistics over batch and time")
def min_batch_norm():
    class N(nn.BatchNorm1d):
        def forward(self, x):
            return super().forward(x.transpose(1, 2)).transpose(1, 2)

    return lm(119, lambda: MinGPT(norm=N))


@broken("the residual starts from the normed input, at the attention: x = ln1(x); x = x + attn(x)")
def min_residual_from_normed():
    class Bl(MinBlock):
        def forward(self, x):
            x = self.ln1(x)
            x = x + self.attn(x)
            x = self.ln2(x)
            return x + self.mlp(x)

    return lm(120, lambda: MinGPT(block=Bl))


@broken("residual multiplied in place of added: x * attn(x)")
def min_residual_multiplied():
    class Bl(MinBlock):
        def forward(self, x):
            x = x * self.attn(self.ln1(x))
            return x * self.mlp(self.ln2(x))

    return lm(121, lambda: MinGPT(block=Bl))


@broken(
    "residual doubled: the MLP path returns x + (x + mlp(x)) and activations double in each of 6 layers"
)
def min_residual_doubled():
    class Bl(MinBlock):
        def forward(self, x):
            x = x + x + self.attn(self.ln1(x))
            return x + x + self.mlp(self.ln2(x))

    return lm(122, lambda: MinGPT(block=Bl, n=6))


@broken(
    "ReZero whose alpha is a plain zero tensor, not a parameter: the blocks do nothing for ever"
)
def rezero_alpha_not_parameter():
    class Bl(ReZeroBlock):
        def __init__(self, *a):
            super().__init__(*a)
            del self.alpha
            self.alpha = torch.zeros(1)

    return lm(123, lambda: MinGPT(block=Bl))


@broken(
    "the position table has requires_grad=False and is all zero: no positions at all in a bidirectional model"
)
def encoder_zero_position_table():
    seeded(124)
    m = Bidirectional()
    nn.init.zeros_(m.pos.weight)
    m.pos.weight.requires_grad_(False)
    ids = chain(seed=124)
    return m, (ids, ids.flip(1)), None, adamw(m)


@broken("ALiBi with the wrong sign: far tokens get the bonus")
def alibi_wrong_sign():
    class A(AlibiAttn):
        def scores(self, q, k):
            t = q.size(-2)
            slopes = torch.tensor([2.0 ** (-8 * (i + 1) / self.h) for i in range(self.h)]) * 4
            dist = torch.arange(t)[None, :] - torch.arange(t)[:, None]
            return MinAttn.scores(self, q, k) - slopes.view(1, -1, 1, 1) * dist.clamp(max=0)

    return lm(125, lambda: NoPositions(attn=A))


@broken(
    "sliding window taken with the wrong sign: only tokens OLDER than the window, early rows are even over all"
)
def window_on_wrong_side():
    class A(WindowAttn):
        def masked(self, att):
            t = att.size(-1)
            i, j = torch.arange(t)[:, None], torch.arange(t)[None]
            return att.masked_fill(~(i - j >= 4), -1e9)

    return lm(126, lambda: MinGPT(attn=A))


@broken("window of 1: each token sees only itself, no context reaches it")
def window_only_itself():
    class A(WindowAttn):
        def masked(self, att):
            t = att.size(-1)
            i, j = torch.arange(t)[:, None], torch.arange(t)[None]
            return att.masked_fill(~((j <= i) & (i - j < 1)), float("-inf"))

    return lm(127, lambda: MinGPT(attn=A))


# ================================================================ Llama manner


@broken("rotary embedding on the queries only, the keys aren't turned")
def llama_rotary_on_q_only():
    class A(GroupedAttn):
        def turn(self, q, k, start=0):
            cos, sin = rotary(q.size(-2), self.e)
            return rotate(q, cos, sin), k

    return lm(200, lambda: MiniLlama(attn=A))


@broken("rotary in two conventions: queries by halves, keys interleaved")
def llama_rotary_two_conventions():
    class A(GroupedAttn):
        def turn(self, q, k, start=0):
            cos, sin = rotary(q.size(-2), self.e)
            half = torch.stack([-k[..., 1::2], k[..., ::2]], -1).flatten(-2)
            return rotate(q, cos, sin), k * cos + half * sin

    return lm(201, lambda: MiniLlama(attn=A))


@broken("rotary turned by the head's number, not by position: (B, H, T, e) read as (B, T, H, e)")
def llama_rotary_along_heads():
    class A(GroupedAttn):
        def turn(self, q, k, start=0):
            cos, sin = rotary(q.size(1), self.e)
            cos, sin = cos[:, None], sin[:, None]
            return rotate(q, cos, sin), rotate(k, cos[: k.size(1)], sin[: k.size(1)])

    return lm(202, lambda: MiniLlama(attn=A))


@broken(
    "keys are turned the other way (-sin): scores depend on the sum of positions, not on the distance"
)
def llama_rotary_opposite():
    class A(GroupedAttn):
        def turn(self, q, k, start=0):
            cos, sin = rotary(q.size(-2), self.e)
            return rotate(q, cos, sin), rotate(k, cos, -sin)

    return lm(203, lambda: MiniLlama(attn=A))


@broken("RMSNorm's mean over time (dim=1) in place of features: the future leaks through the norm")
def llama_rms_over_time():
    class N(RMSNorm):
        def forward(self, x):
            return self.weight * x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + self.eps)

    return lm(204, lambda: MiniLlama(norm=N))


@broken("RMSNorm without the root: x / mean(x^2), small activations explode")
def llama_rms_without_root():
    class N(RMSNorm):
        def forward(self, x):
            return self.weight * x / (x.pow(2).mean(-1, keepdim=True) + self.eps)

    return lm(205, lambda: MiniLlama(norm=N))


@broken("the residual stream is quantised with round() between layers: no gradient below")
def llama_rounded_stream():
    class Bl(LlamaBlock):
        def forward(self, x):
            return super().forward((x * 16).round() / 16)

    return lm(206, lambda: MiniLlama(block=Bl))


@broken("SwiGLU's gate is a hard step (gate > 0).float(): the gate layer gets no gradient")
def llama_step_gate():
    class S(SwiGLU):
        def forward(self, x):
            return self.down((self.gate(x) > 0).float() * self.up(x))

    return lm(207, lambda: MiniLlama(ff=S))


@broken(
    "the router picks the expert by argmax and its probability isn't used: the router gets no gradient"
)
def moe_router_no_gradient():
    class E(Experts):
        def forward(self, x):
            flat = x.reshape(-1, x.size(-1))
            which = self.router(flat).argmax(-1)
            out = torch.zeros_like(flat)
            for i, e in enumerate(self.experts):
                row = (which == i).nonzero()[:, 0]
                if len(row):
                    out = out.index_add(0, row, e(flat[row]))
            return out.view_as(x)

    return lm(208, lambda: MiniLlama(ff=E))


@broken(
    "experts' outputs are put back in sorted order, not in the tokens' order: tokens get others' outputs"
)
def moe_order_not_restored():
    class E(Experts):
        def forward(self, x):
            flat = x.reshape(-1, x.size(-1))
            w, which = self.router(flat).softmax(-1).max(-1)
            order = which.argsort(stable=True)
            parts = [e(flat[order][which[order] == i]) for i, e in enumerate(self.experts)]
            return (torch.cat(parts) * w[order][:, None]).view_as(x)

    return lm(209, lambda: MiniLlama(ff=E))


@broken(
    "router softmax over the tokens (dim=0): routing weights depend on the other tokens and sequences, future too"
)
def moe_softmax_over_tokens():
    class E(Experts):
        def forward(self, x):
            flat = x.reshape(-1, x.size(-1))
            w = self.router(flat).softmax(0)
            return sum(w[:, i, None] * e(flat) for i, e in enumerate(self.experts)).view_as(x) * 10

    return lm(210, lambda: MiniLlama(ff=E))


def frozen_llama(seed):
    m = pretrained(MiniLlama, seed)
    for p in m.parameters():
        p.requires_grad_(False)
    return m


@broken("LoRA with A and B both zero: neither ever gets a gradient")
def lora_both_zero():
    seeded(211)
    m = frozen_llama(211)
    for b in m.layers:
        b.attention.wq, b.attention.wv = LoRA(b.attention.wq), LoRA(b.attention.wv)
        for a in (b.attention.wq, b.attention.wv):
            nn.init.zeros_(a.lora_a)
    return m, lm_batch(311), None, adamw(m, 1e-2)


@broken(
    "layers frozen after LoRA was put in: the adapters are frozen too, only embeddings and head train"
)
def lora_adapters_frozen():
    seeded(212)
    m = pretrained(MiniLlama, 212)
    for b in m.layers:
        b.attention.wq, b.attention.wv = LoRA(b.attention.wq), LoRA(b.attention.wv)
    for p in m.layers.parameters():
        p.requires_grad_(False)
    return m, lm_batch(312), None, adamw(m, 1e-3)


@broken(
    "layer 1 is frozen by accident (a name filter left over from fine-tuning), though it's randomly initialised"
)
def llama_frozen_by_name():
    seeded(213)
    m = MiniLlama()
    for n, p in m.named_parameters():
        if ".1." in n:
            p.requires_grad_(False)
    return m, lm_batch(213), None, adamw(m)


@broken("cache: positions with past_key_values start one too late (past length + 1)")
def cache_position_off_by_one():
    class A(CachedAttn):
        def offset(self, past):
            return 0 if past is None else past[0].size(2) + 1

    return lm(214, lambda: CachedLM(attn=A))


@broken("cache: positions start again at 0 with past_key_values")
def cache_position_restarts():
    class A(CachedAttn):
        def offset(self, past):
            return 0

    return lm(215, lambda: CachedLM(attn=A))


@broken(
    "cache: is_causal=True with fewer queries than keys, so the mask is aligned to the upper left corner"
)
def cache_mask_upper_left():
    class A(CachedAttn):
        def attend(self, q, k, v):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    return lm(216, lambda: CachedLM(attn=A))


@broken(
    "cache kept on the module and never cleared: keys of former calls are attended to in training too"
)
def cache_never_cleared():
    class A(GroupedAttn):
        old = None

        def forward(self, x, past=None):
            b, t, _ = x.shape
            q = self.wq(x).view(b, t, self.h, self.e).transpose(1, 2)
            k = self.wk(x).view(b, t, self.kv, self.e).transpose(1, 2)
            v = self.wv(x).view(b, t, self.kv, self.e).transpose(1, 2)
            q, k = self.turn(q, k)
            new = k.detach(), v.detach()
            if self.old is not None and self.old[0].size(0) == b:
                k, v = torch.cat([self.old[0], k], 2), torch.cat([self.old[1], v], 2)
            self.old = tuple(
                z[:, :, -3 * T :]
                for z in (
                    new
                    if self.old is None or self.old[0].size(0) != b
                    else (torch.cat([self.old[0], new[0]], 2), torch.cat([self.old[1], new[1]], 2))
                )
            )
            s = k.size(2)
            k, v = (z.repeat_interleave(self.h // self.kv, 1) for z in (k, v))
            y = F.scaled_dot_product_attention(
                q, k, v, attn_mask=torch.ones(t, s, dtype=torch.bool).tril(s - t)
            )
            return self.wo(y.transpose(1, 2).reshape(b, t, -1))

    return lm(217, lambda: MiniLlama(attn=A))


@broken("cache holds keys twice: the new key is appended, then appended again")
def cache_key_appended_twice():
    class A(CachedAttn):
        def forward(self, x, past=None):
            y, (k, v) = super().forward(x, past)
            if past is not None:
                k, v = torch.cat([k, k[:, :, -1:]], 2), torch.cat([v, v[:, :, -1:]], 2)
            return y, (k, v)

    return lm(218, lambda: CachedLM(attn=A))


@broken("causal mask made as float 0/1 and added to the scores: it hides nothing")
def x_mask_added_as_ones():
    class A(XAttention):
        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (
                f(x).unflatten(-1, (self.heads, -1)).permute(0, 2, 1, 3)
                for f in (self.to_q, self.to_k, self.to_v)
            )
            sim = torch.einsum("bhid,bhjd->bhij", q * self.scale, k) + torch.ones(n, n).tril()
            out = torch.einsum("bhij,bhjd->bhid", sim.softmax(-1), v)
            return self.to_out(out.permute(0, 2, 1, 3).flatten(2))

    return lm(219, lambda: XTransformer(attn=A))


@broken(
    "einsum sums over the wrong index (bhij,bhid->bhjd): attention is applied transposed, the future leaks"
)
def x_einsum_transposed():
    class A(XAttention):
        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (
                f(x).unflatten(-1, (self.heads, -1)).permute(0, 2, 1, 3)
                for f in (self.to_q, self.to_k, self.to_v)
            )
            sim = torch.einsum("bhid,bhjd->bhij", q * self.scale, k)
            sim = sim.masked_fill(
                torch.ones(n, n, dtype=torch.bool).triu(1), -torch.finfo(sim.dtype).max
            )
            return self.to_out(
                torch.einsum("bhij,bhid->bhjd", sim.softmax(-1), v).permute(0, 2, 1, 3).flatten(2)
            )

    return lm(220, lambda: XTransformer(attn=A))


@broken("embedding scale enormous (values around 1000): positions and blocks drown in the stream")
def x_embedding_scale_enormous():
    class M(MinGPT):
        def embedded(self, idx):
            return self.tok_emb(idx) * D**2 * 50 + self.pos_emb[:, : idx.size(1)]

    return lm(221, M)


# ================================================================ nn.TransformerEncoder / nn.TransformerDecoder


@broken("nn.TransformerEncoder as a language model without any mask")
def encoder_lm_no_mask():
    class M(EncoderLM):
        def mask(self, ids):
            return None

    return lm(300, M, 2e-3)


@broken(
    "bool mask of the wrong convention (tril, True = may attend) given to nn.TransformerEncoder: sees the future only, NaN in evaluation"
)
def encoder_lm_bool_mask_inverted():
    class M(EncoderLM):
        def mask(self, ids):
            return torch.ones(ids.size(1), ids.size(1), dtype=torch.bool).tril()

    return lm(301, M, 2e-3)


@broken(
    "float mask of zeros and ones (tril) in place of -inf and 0: hides nothing in training, NaN in evaluation"
)
def encoder_lm_float_ones_mask():
    class M(EncoderLM):
        def mask(self, ids):
            return torch.ones(ids.size(1), ids.size(1)).tril()

    return lm(302, M, 2e-3)


@broken("batch_first forgotten: (B, T, C) is read as (T, B, C), attention runs over the batch")
def encoder_lm_batch_first_forgotten():
    class M(EncoderLM):
        def mask(self, ids):
            return nn.Transformer.generate_square_subsequent_mask(ids.size(0))

        def forward(self, ids):
            return self.decoder(self.encoder(self.embedded(ids), mask=self.mask(ids)))

    return lm(303, lambda: M(batch_first=False), 2e-3)


@broken(
    "batch arrives time-major (T, B) from the loader, but the model is batch-first: time and batch exchanged"
)
def encoder_lm_time_major_batch():
    m, (x, y), loss, opt = lm(304, EncoderLM, 2e-3)
    return m, (x.t().contiguous(), y.t().contiguous()), loss, opt


@broken(
    "batch_first=False, and (B, T, C) is made (T, B, C) by view in place of transpose: sequences are mixed"
)
def encoder_lm_view_for_transpose():
    class M(EncoderLM):
        def forward(self, ids):
            x = self.embedded(ids)
            b, t, c = x.shape
            x = self.encoder(x.view(t, b, c), mask=self.mask(ids))
            return self.decoder(x.transpose(0, 1))

    return lm(305, lambda: M(batch_first=False), 2e-3)


@broken(
    "sinusoids by integer division: pos // 10000 is 0 everywhere, all positions are alike (bidirectional)"
)
def encoder_sinusoid_constant():
    class M(Bidirectional):
        def embedded(self, ids):
            t = ids.size(1)
            pe = torch.zeros(t, D)
            a = (torch.arange(t)[:, None] // 10000).expand(t, D // 2)
            pe[:, 0::2], pe[:, 1::2] = torch.sin(a.float()), torch.cos(a.float())
            return self.tok(ids) + pe

    seeded(306)
    m = M()
    del m.pos
    ids = chain(seed=306)
    return m, (ids, ids.flip(1)), None, adamw(m)


@broken("embedding scale forgotten with tiny embeddings: sinusoids drown the tokens a thousandfold")
def encoder_lm_embedding_scale_forgotten():
    class M(EncoderLM):
        def embedded(self, ids):
            return self.embed(ids) + self.pe[: ids.size(1)]

    def make():
        m = M()
        nn.init.normal_(m.embed.weight, std=1e-3)
        return m

    return lm(307, make, 1e-3)


@broken(
    "sinusoids are added twice: in the embedding module and once again at the encoder's input (mild)"
)
def encoder_lm_positions_twice():
    class M(EncoderLM):
        def embedded(self, ids):
            return super().embedded(ids) + self.pe[: ids.size(1)]

    return lm(308, M, 2e-3)


@broken(
    "(T, C) sinusoids indexed for a time-first model: pe[:x.size(0)] on (B, T, C) counts along the batch"
)
def encoder_pe_along_batch():
    class M(Bidirectional):
        def __init__(self):
            super().__init__()
            del self.pos
            self.register_buffer("pe", sinusoid(64, D)[:, None])

        def embedded(self, ids):
            x = self.tok(ids)
            return x + self.pe[: x.size(0)]

    seeded(309)
    m = M()
    ids = chain(seed=309)
    return m, (ids, ids.flip(1)), None, adamw(m)


@broken(
    "embedding and encoder run under torch.no_grad (feature extraction, but they're random): only the head learns"
)
def encoder_lm_encoder_no_grad():
    class M(EncoderLM):
        def forward(self, ids):
            with torch.no_grad():
                x = self.encoder(self.embedded(ids), mask=self.mask(ids))
            return self.decoder(x)

    return lm(310, M, 2e-3)


@broken("the optimizer is given model.encoder.parameters() only: embeddings and head stay as drawn")
def encoder_lm_optimizer_only_encoder():
    m, b, loss, _ = lm(311, EncoderLM)
    return m, b, loss, torch.optim.AdamW(m.encoder.parameters(), lr=2e-3)


@broken(
    "nn.TransformerDecoder used as a GPT with its own input as memory, memory unmasked: the future leaks by it"
)
def decoder_memory_is_itself():
    class M(DecoderOnMemory):
        def forward(self, ids):
            h = self.tgt(ids) + self.pos[: ids.size(1)]
            return self.head(self.decoder(h, h, tgt_mask=self.mask(ids)))

    seeded(312)
    m = M()
    del m.src
    return m, lm_batch(312), None, adamw(m)


@broken("nn.TransformerDecoder without tgt_mask: the decoder sees the tokens it must say")
def decoder_no_tgt_mask():
    class M(DecoderOnMemory):
        def mask(self, tgt):
            return None

    seeded(313)
    m = M()
    return m, pair_batch(313), None, adamw(m)


@broken(
    "memory is the mean over the source, one vector with no positions: the source's order is lost"
)
def decoder_memory_averaged():
    class M(DecoderOnMemory):
        def memory(self, src):
            return self.src(src).mean(1, keepdim=True)

    seeded(314)
    m = M()
    return m, pair_batch(314), None, adamw(m)


@broken("memory is put in detached: the source embeddings never learn")
def decoder_memory_detached():
    class M(DecoderOnMemory):
        def memory(self, src):
            return super().memory(src).detach()

    seeded(315)
    m = M()
    return m, pair_batch(315), None, adamw(m)


# ================================================================ encoder-decoders


def seq(seed, over, pads=True, cls=Seq2Seq):
    seeded(seed)
    m = type("M", (cls,), over)()
    return m, pair_batch(seed, pads=pads), None, adamw(m)


@broken("nn.Transformer without tgt_mask: the decoder isn't causal")
def seq2seq_no_tgt_mask():
    return seq(
        400,
        {
            "masks": lambda s, a, b: dict(
                src_key_padding_mask=a == 0,
                tgt_key_padding_mask=b == 0,
                memory_key_padding_mask=a == 0,
            )
        },
    )


def usual_masks(a, b):
    return dict(
        tgt_mask=torch.ones(b.size(1), b.size(1), dtype=torch.bool).triu(1),
        src_key_padding_mask=a == 0,
        tgt_key_padding_mask=b == 0,
        memory_key_padding_mask=a == 0,
    )


@broken("src_key_padding_mask inverted (True at real tokens): the encoder sees pads only")
def seq2seq_src_padding_inverted():
    def masks(s, a, b):
        bad = a != 0
        bad[0, -1] = False  # the one row without a pad
        bad = bad & ~(bad.all(1, keepdim=True) & (torch.arange(a.size(1)) == a.size(1) - 1))
        return dict(usual_masks(a, b), src_key_padding_mask=bad)

    return seq(401, {"masks": masks})


@broken("memory_key_padding_mask forgotten: cross-attention reads the source's pads")
def seq2seq_memory_not_masked():
    def masks(s, a, b):
        k = usual_masks(a, b)
        del k["memory_key_padding_mask"]
        return k

    return seq(402, {"masks": masks})


@broken("the decoder's input isn't shifted: it's given the very targets")
def seq2seq_decoder_gets_targets():
    m, ((src, _), y), loss, opt = seq(403, {}, pads=False)
    return m, ((src, y.clone()), y), loss, opt


@broken("no padding masks anywhere, in encoder, decoder and memory")
def seq2seq_no_padding_masks():
    return seq(404, {"masks": lambda s, a, b: dict(tgt_mask=usual_masks(a, b)["tgt_mask"])})


@broken(
    "source and target exchanged in the call: transformer(tgt, src), output length by luck the same"
)
def seq2seq_src_tgt_exchanged():
    def forward(self, src, tgt):
        return Seq2Seq.forward(self, tgt, src)

    return seq(405, {"forward": forward}, pads=False)


@broken("nn.Transformer with batch_first forgotten: attention runs across the batch")
def seq2seq_batch_first_forgotten():
    class M(Seq2Seq):
        def __init__(self):
            super().__init__()
            self.transformer = nn.Transformer(D, NH, 2, 2, 2 * D, 0.0)

        def masks(self, src, tgt):
            return dict(tgt_mask=torch.ones(tgt.size(0), tgt.size(0), dtype=torch.bool).triu(1))

    seeded(406)
    m = M()
    return m, pair_batch(406), None, adamw(m)


@broken("target padding counted in the loss (0 in the targets, nothing ignored)")
def seq2seq_pads_in_loss():
    m, (x, y), loss, opt = seq(407, {})
    return m, (x, y.masked_fill(y == -100, 0)), loss, opt


@broken(
    "cross-attention attends to the decoder itself (keys and values from x): the source is unused, no mask"
)
def own_cross_attends_itself():
    class L(DecLayer):
        def forward(self, x, memory, mask, memory_mask):
            x = self.n1(x + self.self_att(x, x, mask))
            x = self.n2(x + self.cross(x, x, mask))
            return self.n3(x + self.ff(x))

    seeded(408)
    m = OwnEncDec(dec=L)
    return m, pair_batch(408, pads=True), None, adamw(m)


@broken("the decoder reads the source's embeddings, the encoder's output is dropped")
def own_encoder_output_dropped():
    class M(OwnEncDec):
        def encode(self, src, src_mask):
            emb = self.src_embed(src) * math.sqrt(self.d) + self.pe[: src.size(1)]
            x = emb
            for layer in self.encoder:
                x = layer(x, src_mask)
            return emb

    return seq(409, {}, cls=M)


@broken("encoder's output detached before the decoder: the encoder never learns")
def own_encoder_detached():
    class M(OwnEncDec):
        def decode(self, tgt, memory, src_mask):
            return super().decode(tgt, memory.detach(), src_mask)

    return seq(410, {}, cls=M)


@broken("padding mask inverted in encoder and cross-attention (src == 0 may be seen)")
def own_padding_inverted():
    class M(OwnEncDec):
        def forward(self, src, tgt):
            mask = (src == 0)[:, None, None, :]
            return self.proj(self.decode(tgt, self.encode(src, mask), mask))

    return seq(411, {}, cls=M)


@broken("the decoder's self-attention is given the padding mask only, no causal one")
def own_decoder_not_causal():
    class M(OwnEncDec):
        def decode(self, tgt, memory, src_mask):
            x = self.tgt_embed(tgt) * math.sqrt(self.d) + self.pe[: tgt.size(1)]
            for layer in self.decoder:
                x = layer(x, memory, (tgt != 0)[:, None, None, :], src_mask)
            return x

    return seq(412, {}, cls=M)


@broken(
    "query and memory exchanged in cross-attention: queries from memory, values from the decoder (same length)"
)
def own_cross_exchanged():
    class L(DecLayer):
        def forward(self, x, memory, mask, memory_mask):
            x = self.n1(x + self.self_att(x, x, mask))
            x = self.n2(x + self.cross(memory, x))
            return self.n3(x + self.ff(x))

    seeded(413)
    m = OwnEncDec(dec=L)
    return m, pair_batch(413), None, adamw(m)


@broken("cross-attention is given memory[:, :1], the first source position only")
def own_cross_sees_first_only():
    class M(OwnEncDec):
        def decode(self, tgt, memory, src_mask):
            return super().decode(tgt, memory[:, :1], None)

    return seq(414, {}, pads=False, cls=M)


# ================================================================ classifiers, taggers, masked models


def classify(seed, over, pool="cls", cls=Classifier, batch=None, **k):
    seeded(seed)
    m = type("M", (cls,), over)(pool, **k)
    return m, batch or class_batch(seed), None, adamw(m)


@broken("CLS is in front, but the classifier reads the last position, where the pads are")
def cls_from_last_position():
    return classify(500, {"pooled": lambda s, x, ids: x[:, -1]})


@broken("x[0] in place of x[:, 0]: the first sequence's tokens answer for the batch (B = T)")
def cls_first_sequence():
    return classify(501, {"pooled": lambda s, x, ids: x[0]}, batch=class_batch(501, b=8, t=8))


@broken("mean pooling over the pads too")
def mean_pool_over_pads():
    return classify(
        502, {"pooled": lambda s, x, ids: x.mean(1), "padding": lambda s, ids: ids == 0}, "mean"
    )


@broken("key padding mask inverted: attention sees the pads only (rows without pads: NaN)")
def cls_padding_mask_inverted():
    return classify(503, {"padding": lambda s, ids: ids != 0})


@broken("no padding mask: the real tokens attend to pads")
def cls_no_padding_mask():
    return classify(504, {"padding": lambda s, ids: None})


@broken("a row of pads only (empty text): all keys masked, NaN")
def cls_empty_row_nan():
    x, y = class_batch(505)
    x[3] = 0
    return classify(505, {}, "mean", batch=(x, y))


@broken("max pooling over dim 0 (the batch) in place of dim 1 (time), unnoticed as B = T")
def pool_over_batch():
    return classify(
        506, {"pooled": lambda s, x, ids: x.max(0).values}, batch=class_batch(506, b=8, t=8)
    )


@broken("sigmoid on the class scores before cross-entropy")
def cls_sigmoid_before_cross_entropy():
    class M(Classifier):
        def forward(self, ids):
            return torch.sigmoid(super().forward(ids))

    return classify(507, {}, cls=M)


@broken("binary head: softmax over ONE logit is always 1, then binary cross-entropy")
def binary_softmax_of_one():
    class M(Classifier):
        def forward(self, ids):
            return super().forward(ids).softmax(-1)

    m, _, _, opt = classify(508, {}, "mean", cls=M, classes=1)
    x, y = class_batch(508, classes=2)
    return m, (x, y.float()), (lambda z, y: F.binary_cross_entropy(z.squeeze(-1), y)), opt


@broken("sigmoid in the model and binary_cross_entropy_with_logits in the loss: sigmoid twice")
def binary_sigmoid_twice():
    class M(Classifier):
        def forward(self, ids):
            return torch.sigmoid(super().forward(ids))

    m, _, _, opt = classify(509, {}, "mean", cls=M, classes=1)
    x, y = class_batch(509, classes=2)
    return (
        m,
        (x, y.float()),
        (lambda z, y: F.binary_cross_entropy_with_logits(z.squeeze(-1), y)),
        opt,
    )


@broken("the CLS vector is taken before the encoder (from the embeddings): all inputs look alike")
def cls_before_encoder():
    class M(Classifier):
        def forward(self, ids):
            emb = self.tok(ids) + self.pos[: ids.size(1)]
            self.encoder(emb, src_key_padding_mask=self.padding(ids))
            return self.fc(emb[:, 0])

    return classify(510, {}, cls=M)


@broken("all labels in the batch are one class (the label column was read wrong)")
def cls_labels_all_equal():
    x, y = class_batch(511)
    return classify(511, {}, batch=(x, torch.zeros_like(y)))


@broken("inputs all equal: the text column was tokenised to pads/unknown (id 1 then 2s)")
def cls_inputs_all_unknown():
    x, y = class_batch(512)
    x = torch.full_like(x, 2)
    x[:, 0] = 1
    return classify(512, {}, batch=(x, y))


@broken("ReLU after the class head, all of whose biases start at -5: dead")
def cls_dead_relu_head():
    class M(Classifier):
        def __init__(self, pool):
            super().__init__(pool)
            nn.init.constant_(self.fc.bias, -5.0)

        def forward(self, ids):
            return F.relu(super().forward(ids))

    return classify(513, {}, cls=M)


@broken(
    "encoder frozen by accident (requires_grad False on a random encoder), only the head learns"
)
def cls_encoder_frozen():
    seeded(514)
    m = Classifier("cls")
    for p in m.encoder.parameters():
        p.requires_grad_(False)
    return m, class_batch(514), None, adamw(m)


@broken("bidirectional tagger is causal by accident, though the tag depends on the next token")
def tagger_causal():
    class M(Bidirectional):
        def forward(self, ids, keep=None):
            t = ids.size(1)
            x = self.body(
                self.embedded(ids),
                mask=torch.ones(t, t, dtype=torch.bool).triu(1),
                src_key_padding_mask=None if keep is None else ~keep,
            )
            return self.out(self.norm(x))

    seeded(515)
    m = M(out=5)
    ids, keep = padded(515)
    tags = ((ids + ids.roll(-1, 1)) % 5).masked_fill(~keep, -100)
    return m, ((ids, keep), tags), None, adamw(m)


@broken("tags of the pads are 0, not -100: most of the loss is on pads")
def tagger_pads_in_loss():
    seeded(516)
    m = Bidirectional(out=5)
    ids, keep = padded(516, shortest=3)
    tags = (1 + (ids + ids.roll(1, 1)) % 4).masked_fill(~keep, 0)
    return m, ((ids, keep), tags), None, adamw(m)


@broken("keep mask handed over as src_key_padding_mask without ~: real tokens are hidden")
def tagger_keep_mask_not_inverted():
    class M(Bidirectional):
        def forward(self, ids, keep):
            x = self.body(self.embedded(ids), src_key_padding_mask=keep)
            return self.out(self.norm(x))

    seeded(517)
    m = M(out=5)
    ids, keep = padded(517)
    tags = ((ids + ids.roll(1, 1)) % 5).masked_fill(~keep, -100)
    return m, ((ids, keep), tags), None, adamw(m)


@broken("no positions at all in a bidirectional model that has to reverse: order unknown")
def reverse_without_positions():
    class M(Bidirectional):
        def embedded(self, ids):
            return self.tok(ids)

    seeded(518)
    m = M()
    del m.pos
    ids = chain(seed=518)
    return m, (ids, ids.flip(1)), None, adamw(m)


@broken(
    "masked language model asked at the unmasked places (labels -100 exactly at the masked ones)"
)
def mlm_labels_at_wrong_places():
    seeded(519)
    m = Bidirectional()
    d = mlm_batch(519)
    ids, keep = padded(519, b=8)
    masked = d["labels"] != -100
    return m, ((d["input_ids"], keep), ids.masked_fill(masked | ~keep, -100)), None, adamw(m)


@broken(
    "masked language model whose inputs were masked after the labels were copied: labels hold the mask id"
)
def mlm_labels_are_mask_id():
    seeded(520)
    m = Bidirectional()
    d = mlm_batch(520)
    y = d["labels"].masked_fill(d["labels"] != -100, 2)
    return m, ((d["input_ids"], d["attention_mask"].bool()), y), None, adamw(m)


# ================================================================ floats


@broken(
    "patches (B, d, h, w) turned to (B, N, d) by view in place of flatten(2).transpose(1, 2): channels mixed"
)
def vit_patches_by_view():
    class M(TinyViT):
        def patches(self, img):
            x = self.patch(img)
            return x.reshape(x.size(0), -1, x.size(1))

    seeded(600)
    m = M()
    return m, images(600), None, adamw(m)


@broken("the class token is never given to the encoder; the head reads it bare")
def vit_head_on_bare_cls():
    class M(TinyViT):
        def forward(self, img):
            x = self.enc(self.patches(img) + self.pos[:, 1:])  # noqa: F841
            return self.head((self.cls + self.pos[:, :1]).expand(len(img), -1, -1)[:, 0])

    seeded(601)
    m = M()
    return m, images(601), None, adamw(m)


@broken(
    "images not normalised (values around 10000): the patch layer's output drowns class token and positions"
)
def vit_not_normalised():
    seeded(602)
    m = TinyViT()
    x, y = images(602)
    return m, ((x + 3) * 3000, y), None, adamw(m)


@broken("MSE of (B, 1) against (B): broadcast to (B, B), the model learns the mean")
def regressor_mse_broadcast():
    class M(WindowRegressor):
        def forward(self, x):
            return super().forward(x)[:, None]

    seeded(603)
    m = M()
    return m, window_batch(603), F.mse_loss, adamw(m)


@broken("forecaster without causal mask: the next value is in the input, one place further")
def forecaster_not_causal():
    class M(Forecaster):
        def mask(self, t):
            return None

    seeded(604)
    m = M()
    return m, series(604), F.mse_loss, adamw(m)


@broken("targets are the inputs of the same time step: the forecaster copies")
def forecaster_targets_same_step():
    seeded(605)
    m = Forecaster()
    x, _ = series(605)
    return m, (x, x.clone()), F.mse_loss, adamw(m)


@broken("targets not scaled (around 100000) with MSE and lr 1e-3: out of reach")
def regressor_targets_unscaled():
    seeded(606)
    m = WindowRegressor()
    x, y = window_batch(606)
    return m, (x, 1e5 + 1e4 * y), F.mse_loss, adamw(m, 1e-3)


@broken("mean over the features in place of over time before the output layer")
def regressor_pools_features():
    class M(WindowRegressor):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(T, 1)

        def forward(self, x):
            return self.out(self.enc(self.inp(x) + self.pos[: x.size(1)]).mean(-1)).squeeze(-1)

    seeded(607)
    m = M()
    return m, window_batch(607), F.mse_loss, adamw(m)


@broken("ReLU at the output of a regressor whose targets are negative half of the time")
def forecaster_relu_output():
    class M(Forecaster):
        def forward(self, x):
            return F.relu(super().forward(x))

    seeded(608)
    m = M()
    return m, series(608), F.mse_loss, adamw(m)


# ================================================================ Hugging Face, patched or misused


def gpt2(seed, style="labels", attn="eager", **k):
    return hf_lm(
        "GPT2LMHeadModel", "GPT2Config", seed, style, attn_implementation=attn, **{**NODROP2, **k}
    )


@broken("labels shifted by hand, and Hugging Face's model shifts them again")
def hf_labels_shifted_twice():
    m, _, _, opt = gpt2(700)
    x, y = lm_batch(700, low=3)
    return m, {"input_ids": x, "labels": y}, None, opt


@broken("pads in the labels aren't -100 (labels = input_ids with padding)")
def hf_gpt2_pads_in_labels():
    m, _, _, opt = gpt2(701)
    ids, keep = padded(701)
    return m, {"input_ids": ids, "attention_mask": keep.long(), "labels": ids.clone()}, None, opt


@broken("attention_mask inverted: 1 at the pads, 0 at the tokens")
def hf_gpt2_attention_mask_inverted():
    m, _, _, opt = gpt2(702)
    ids, keep = padded(702)
    return (
        m,
        {
            "input_ids": ids,
            "attention_mask": (~keep).long(),
            "labels": ids.masked_fill(~keep, -100),
        },
        None,
        opt,
    )


@broken("GPT-2 patched: attention isn't causal any more (is_causal False with sdpa)")
def hf_gpt2_not_causal():
    m, b, loss, opt = gpt2(703, "pair", "sdpa")
    for h in m.transformer.h:
        h.attn.is_causal = False
    return m, b, loss, opt


@broken("GPT-2's scaling is sqrt(e) in place of 1/sqrt(e), with weights of normal size")
def hf_gpt2_scaling_multiplied():
    m, b, loss, opt = gpt2(704, initializer_range=0.15)
    for h in m.transformer.h:
        h.attn.scaling = h.attn.head_dim**0.5
    return m, b, loss, opt


@broken("lm_head replaced by a new Linear: not tied to wte any more, though the config says tied")
def hf_gpt2_head_not_tied():
    m, b, loss, opt = gpt2(705)
    m.lm_head = nn.Linear(32, V, bias=False)
    nn.init.normal_(m.lm_head.weight, std=0.02)
    return m, b, loss, adamw(m)


@broken("resize_token_embeddings after the optimizer was made: embeddings and head are not in it")
def hf_gpt2_resized_after_optimizer():
    m, b, loss, opt = gpt2(706)
    m.resize_token_embeddings(V + 4)
    return m, b, loss, opt


@broken("all blocks replaced by the first one")
def hf_gpt2_one_block():
    seeded(707)
    m, b, loss, _ = gpt2(707)
    for i in range(1, len(m.transformer.h)):
        m.transformer.h[i] = m.transformer.h[0]
    return m, dict(b, use_cache=False), loss, adamw(m)


@broken("dropout 0.9 everywhere in the config")
def hf_gpt2_dropout_enormous():
    return gpt2(708, resid_pdrop=0.9, embd_pdrop=0.9, attn_pdrop=0.9)


@broken("subclass counts positions from 0 again when past_key_values are given")
def hf_gpt2_cache_positions_restart():
    import transformers as tr

    class G(tr.GPT2LMHeadModel):
        def forward(self, input_ids=None, past_key_values=None, position_ids=None, **k):
            position_ids = torch.arange(input_ids.size(1))[None]
            return super().forward(
                input_ids=input_ids, past_key_values=past_key_values, position_ids=position_ids, **k
            )

    m, b, loss, _ = gpt2(709)
    new = G(m.config)
    return new, b, loss, adamw(new)


@broken("Llama subclass: position_ids are one too large as soon as there is a cache")
def hf_llama_cache_off_by_one():
    import transformers as tr

    class L(tr.LlamaForCausalLM):
        def forward(self, input_ids=None, past_key_values=None, position_ids=None, **k):
            n = 0 if past_key_values is None else past_key_values.get_seq_length()
            position_ids = torch.arange(input_ids.size(1))[None] + (n + 1 if n else 0)
            return super().forward(
                input_ids=input_ids, past_key_values=past_key_values, position_ids=position_ids, **k
            )

    m, b, loss, _ = hf_lm(
        "LlamaForCausalLM",
        "LlamaConfig",
        710,
        "pair",
        attn_implementation="eager",
        initializer_range=0.15,
        **LLAMA,
    )
    new = L(m.config)
    return new, b, loss, adamw(new)


@broken("Llama patched: scaling is sqrt(e) in place of 1/sqrt(e), with weights of normal size")
def hf_llama_scaling_multiplied():
    m, b, loss, opt = hf_lm(
        "LlamaForCausalLM",
        "LlamaConfig",
        711,
        attn_implementation="eager",
        initializer_range=0.15,
        **LLAMA,
    )
    for layer in m.model.layers:
        layer.self_attn.scaling = layer.self_attn.head_dim**0.5
    return m, b, loss, opt


@broken("Llama: o_proj of every layer frozen at zero: attention never reaches the stream")
def hf_llama_o_proj_frozen_zero():
    m, b, loss, _ = hf_lm("LlamaForCausalLM", "LlamaConfig", 712, **LLAMA)
    for layer in m.model.layers:
        nn.init.zeros_(layer.self_attn.o_proj.weight)
        layer.self_attn.o_proj.weight.requires_grad_(False)
    return m, b, loss, adamw(m)


@broken("Llama patched: the MLP's forward returns its output detached")
def hf_llama_mlp_detached():
    m, b, loss, opt = hf_lm("LlamaForCausalLM", "LlamaConfig", 713, "pair", **LLAMA)
    for layer in m.model.layers:
        layer.mlp.register_forward_hook(lambda mod, i, o: o.detach())
    return m, b, loss, opt


@broken("OPT: learning rate 0 in the group that holds the decoder layers")
def hf_opt_layers_lr_zero():
    m, b, loss, _ = hf_lm(
        "OPTForCausalLM",
        "OPTConfig",
        714,
        hidden_size=32,
        ffn_dim=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=32,
        word_embed_proj_dim=32,
        dropout=0.0,
    )
    inside = {id(p) for p in m.model.decoder.layers.parameters()}
    return (
        m,
        b,
        loss,
        torch.optim.AdamW(
            [
                {"params": [p for p in m.parameters() if id(p) in inside], "lr": 0.0},
                {"params": [p for p in m.parameters() if id(p) not in inside], "lr": 2e-3},
            ]
        ),
    )


@broken("GPT-NeoX wrapped: hidden states go to the head through .data, the body gets no gradient")
def hf_neox_body_cut_off():
    m, b, loss, opt = hf_lm(
        "GPTNeoXForCausalLM",
        "GPTNeoXConfig",
        715,
        "pair",
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=32,
    )

    class W(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.body, self.head = inner.gpt_neox, nn.Linear(32, V)

        def forward(self, ids):
            return self.head(self.body(ids).last_hidden_state.data)

    w = W(m)
    return w, b, None, adamw(w)


@broken(
    "BertLMHeadModel as a causal language model with is_decoder=False: it sees the whole sequence"
)
def hf_bert_lm_not_decoder():
    import transformers as tr

    seeded(716)
    m = tr.BertLMHeadModel(tr.BertConfig(vocab_size=V, is_decoder=False, **ENC))
    ids = chain(seed=716, low=3)
    return m, {"input_ids": ids, "labels": ids.clone()}, None, adamw(m)


@broken("BERT: position_ids are all 0, word order is unknown")
def hf_bert_positions_zero():
    import transformers as tr

    seeded(717)
    m = tr.BertForMaskedLM(tr.BertConfig(vocab_size=V, **ENC))
    b = mlm_batch(717)
    return m, dict(b, position_ids=torch.zeros_like(b["input_ids"])), None, adamw(m)


@broken("BERT classifier: base model frozen though randomly initialised, only the head learns")
def hf_bert_base_frozen():
    import transformers as tr

    seeded(718)
    m = tr.BertForSequenceClassification(tr.BertConfig(vocab_size=V, num_labels=3, **ENC))
    for p in m.bert.parameters():
        p.requires_grad_(False)
    ids, keep = padded(718, b=8)
    return (
        m,
        {"input_ids": ids, "attention_mask": keep.long(), "labels": ids[:, 1] % 3},
        None,
        adamw(m),
    )


@broken("BERT classifier: the optimizer holds model.bert only, the head is missing")
def hf_bert_optimizer_without_head():
    import transformers as tr

    seeded(719)
    m = tr.BertForSequenceClassification(tr.BertConfig(vocab_size=V, num_labels=3, **ENC))
    ids, keep = padded(719, b=8)
    return (
        m,
        {"input_ids": ids, "attention_mask": keep.long(), "labels": ids[:, 1] % 3},
        None,
        torch.optim.AdamW(m.bert.parameters(), lr=2e-3),
    )


@broken("BERT classifier without attention_mask: pads are attended to")
def hf_bert_no_attention_mask():
    import transformers as tr

    seeded(720)
    m = tr.BertForSequenceClassification(tr.BertConfig(vocab_size=V, num_labels=3, **ENC))
    ids, _ = padded(720, b=8)
    return m, {"input_ids": ids, "labels": ids[:, 1] % 3}, None, adamw(m)


@broken("RoBERTa masked model: labels at the pads are 0, not -100")
def hf_roberta_pads_in_labels():
    import transformers as tr

    seeded(721)
    m = tr.RobertaForMaskedLM(tr.RobertaConfig(vocab_size=V, **ENC))
    b = mlm_batch(721)
    pad = b["attention_mask"] == 0
    return m, dict(b, labels=b["labels"].masked_fill(pad, 0)), None, adamw(m)


@broken("DistilBERT wrapped: mean over last_hidden_state counts the pads")
def hf_distilbert_mean_over_pads():
    import transformers as tr

    class W(nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = tr.DistilBertModel(
                tr.DistilBertConfig(
                    vocab_size=V,
                    dim=32,
                    hidden_dim=64,
                    n_layers=2,
                    n_heads=4,
                    max_position_embeddings=32,
                )
            )
            self.fc = nn.Linear(32, 3)

        def forward(self, input_ids, attention_mask):
            return self.fc(
                self.bert(input_ids, attention_mask=attention_mask).last_hidden_state.mean(1)
            )

    seeded(722)
    m = W()
    ids, keep = padded(722, b=8, shortest=3)
    return m, ({"input_ids": ids, "attention_mask": keep.long()}, ids[:, 1] % 3), None, adamw(m)


@broken("BERT wrapped: model.eval() and torch.no_grad() around BERT, only the linear layer learns")
def hf_bert_no_grad():
    import transformers as tr

    class W(nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = tr.BertModel(tr.BertConfig(vocab_size=V, **ENC))
            self.fc = nn.Linear(32, 3)

        def forward(self, input_ids, attention_mask):
            with torch.no_grad():
                h = self.bert(input_ids, attention_mask=attention_mask)
            return self.fc(h.last_hidden_state[:, 0])

    seeded(723)
    m = W()
    ids, keep = padded(723, b=8)
    return m, ({"input_ids": ids, "attention_mask": keep.long()}, ids[:, 1] % 3), None, adamw(m)


@broken("T5: decoder_input_ids are the labels themselves, unshifted: the decoder copies")
def hf_t5_decoder_gets_labels():
    import transformers as tr

    seeded(724)
    m = tr.T5ForConditionalGeneration(
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
    b = s2s_mapping(724)
    return (
        m,
        dict(b, decoder_input_ids=b["labels"].masked_fill(b["labels"] == -100, 0)),
        None,
        adamw(m),
    )


@broken("T5: pads in the labels are 0, not -100")
def hf_t5_pads_in_labels():
    import transformers as tr

    seeded(725)
    m = tr.T5ForConditionalGeneration(
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
    b = s2s_mapping(725)
    return m, dict(b, labels=b["labels"].masked_fill(b["labels"] == -100, 0)), None, adamw(m)


@broken("BART patched: the encoder's output is detached by a hook, the encoder doesn't learn")
def hf_bart_encoder_detached():
    import transformers as tr

    seeded(726)
    m = tr.BartForConditionalGeneration(tr.BartConfig(**BARTISH))

    def cut(mod, args, out):
        out.last_hidden_state = out.last_hidden_state.detach()
        return out

    m.model.encoder.register_forward_hook(cut)
    return m, s2s_mapping(726), None, adamw(m)


@broken("Marian: attention_mask inverted for the source, encoder and cross-attention see the pads")
def hf_marian_mask_inverted():
    import transformers as tr

    seeded(727)
    m = tr.MarianMTModel(tr.MarianConfig(**dict(BARTISH, decoder_vocab_size=V)))
    b = s2s_mapping(727)
    return m, dict(b, attention_mask=1 - b["attention_mask"]), None, adamw(m, 3e-3)


@broken("Qwen2 in eager mode, patched: the causal mask is dropped from the attention's arguments")
def hf_qwen2_mask_dropped():
    m, b, loss, opt = hf_lm(
        "Qwen2ForCausalLM", "Qwen2Config", 728, "pair", attn_implementation="eager", **LLAMA
    )
    for layer in m.model.layers:
        inner = layer.self_attn.forward

        def forward(self, *a, _inner=inner, **k):
            k["attention_mask"] = None
            return _inner(*a, **k)

        layer.self_attn.forward = MethodType(forward, layer.self_attn)
    return m, b, loss, opt


@broken("Falcon: SGD with lr 1e-6, meant for AdamW: it hardly moves")
def hf_falcon_sgd_tiny_lr():
    m, b, loss, _ = hf_lm(
        "FalconForCausalLM",
        "FalconConfig",
        729,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
    )
    return m, b, loss, torch.optim.SGD(m.parameters(), lr=1e-6)


@broken("ViT: the classifier head's weights are frozen at zero; nothing behind it gets a gradient")
def hf_vit_head_frozen_zero():
    import transformers as tr

    seeded(730)
    m = tr.ViTForImageClassification(
        tr.ViTConfig(
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            image_size=8,
            patch_size=2,
            num_labels=4,
        )
    )
    nn.init.zeros_(m.classifier.weight)
    m.classifier.weight.requires_grad_(False)
    x, y = images(730)
    return m, ({"pixel_values": x}, y), None, adamw(m)
