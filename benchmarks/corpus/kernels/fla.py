"""fla-core: Triton kernels of linear attention, whose products of 64 by 64 use the tensor cores."""

from __future__ import annotations

import numpy as np

from benchmarks.corpus.entries import triton_kernels
from benchmarks.corpus.problems import Draw, Problem, Tensor, poisoned
from benchmarks.corpus.reference import softmax

kernel = triton_kernels("fla")
OPS = "fla.ops"
MMA = ("90a", "100a")
B, T, H, K, V, BT = 1, 160, 2, 64, 64, 64
SCALE = K**-0.5
SIZES = {"H": H, "HV": H, "K": K, "V": V, "BT": BT, "BK": 64, "BV": 64, "IS_VARLEN": False}
CHUNKS = [slice(start, min(start + BT, T)) for start in range(0, T, BT)]


def _gates(draw: Draw) -> Tensor:
    """Logarithms to base 2 of the decay up to each token of its chunk, (B, T, H)."""
    steps = draw.uniform(B, T, H, low=-0.1, high=0).values
    return Tensor(np.concatenate([np.cumsum(steps[:, rows], axis=1) for rows in CHUNKS], axis=1), "f32")


@kernel(f"{OPS}.common.chunk_o:chunk_fwd_kernel_o", MMA)
def chunk_output(draw: Draw) -> Problem:
    q, k, v = (draw.normal(B, T, H, K, kind="bf16", scale=0.5) for _ in range(3))
    h, g = draw.normal(B, len(CHUNKS), H, K, V, kind="bf16", scale=0.3), _gates(draw)
    out = np.zeros((B, T, H, V))
    for number, rows in enumerate(CHUNKS):
        for head in range(H):
            qs, ks, vs, gs = (x.values[0, rows, head] for x in (q, k, v, g))
            scores = np.tril(qs @ ks.T * np.exp2(gs[:, None] - gs[None, :]))
            out[0, rows, head] = SCALE * (qs @ h.values[0, number, head] * np.exp2(gs)[:, None] + scores @ vs)
    args = {
        "q": q,
        "k": k,
        "v": v,
        "h": h,
        "g": g,
        "o": poisoned(out, "bf16", tolerance=0.03),
        "scale": SCALE,
        "T": T,
    }
    return Problem((len(CHUNKS), B * H), args, {**SIZES, "USE_G": True})


@kernel(f"{OPS}.common.chunk_o:chunk_bwd_kernel_dv_local", MMA)
def chunk_gradient_of_v(draw: Draw) -> Problem:
    q, k, do = (draw.normal(B, T, H, K, kind="f16", scale=0.5) for _ in range(3))
    dv = np.zeros((B, T, H, V))
    for rows in CHUNKS:
        for head in range(H):
            qs, ks, dos = (x.values[0, rows, head] for x in (q, k, do))
            dv[0, rows, head] = np.triu(ks @ qs.T * SCALE) @ dos
    args = {"q": q, "k": k, "do": do, "dv": poisoned(dv, "f16", tolerance=0.01), "scale": SCALE, "T": T}
    return Problem((len(CHUNKS), B * H), args, SIZES)


@kernel(f"{OPS}.common.chunk_h:chunk_fwd_kernel_h", MMA)
def chunk_states(draw: Draw) -> Problem:
    k, v = (draw.normal(B, T, H, K, kind="bf16", scale=0.5) for _ in range(2))
    h0, g = draw.normal(B, H, K, V), _gates(draw)
    states, last = np.zeros((B, len(CHUNKS), H, K, V)), h0.values.copy()
    for number, rows in enumerate(CHUNKS):
        states[:, number] = last
        for head in range(H):
            ks, vs, gs = (x.values[0, rows, head] for x in (k, v, g))
            last[0, head] = last[0, head] * np.exp2(gs[-1]) + ks.T @ (vs * np.exp2(gs[-1] - gs)[:, None])
    args = {
        "k": k, "v": v, "h": poisoned(states, "bf16", tolerance=0.03), "g": g, "h0": h0,
        "ht": poisoned(last, "f32", tolerance=0.03), "T": T,
    }  # fmt: skip
    constants = {**SIZES, "BS": BT, "USE_G": True, "USE_INITIAL_STATE": True, "STORE_FINAL_STATE": True}
    del constants["HV"]
    return Problem(B * H, args, constants)


@kernel(f"{OPS}.common.chunk_scaled_dot_kkt:chunk_scaled_dot_kkt_fwd_kernel", MMA)
def chunk_scaled_products(draw: Draw) -> Problem:
    k, g, beta = draw.normal(B, T, H, K, kind="f16", scale=0.3), _gates(draw), draw.uniform(B, T, H)
    a = np.zeros((B, T, H, BT))
    for rows in CHUNKS:
        for head in range(H):
            ks, gs, bs = (x.values[0, rows, head] for x in (k, g, beta))
            product = np.tril(ks @ ks.T * np.exp2(gs[:, None] - gs[None, :]) * bs[:, None], -1)
            a[0, rows, head, : len(ks)] = product
    args = {"k": k, "g": g, "beta": beta, "A": poisoned(a, "f32", tolerance=1e-4), "T": T}
    constants = {**SIZES, "USE_G": True}
    del constants["V"], constants["BV"]
    return Problem((len(CHUNKS), B * H), args, constants)


def _cumulative(values, reverse):
    return np.flip(np.cumsum(np.flip(values, 1), axis=1), 1) if reverse else np.cumsum(values, axis=1)


@kernel(f"{OPS}.utils.cumsum:chunk_local_cumsum_scalar_kernel")
def cumsum_in_chunks(draw: Draw) -> Problem:
    s = draw.normal(B, T, H)
    sums = np.concatenate([_cumulative(s.values[:, rows], False) for rows in CHUNKS], axis=1)
    args = {"s": s, "o": poisoned(sums * 1.5, "f32"), "scale": 1.5, "T": T}
    return Problem(len(CHUNKS) * B * H, args, {"B": B, "H": H, "BT": BT, "REVERSE": False, "HAS_SCALE": True})


@kernel(f"{OPS}.utils.cumsum:chunk_local_cumsum_vector_kernel")
def cumsum_of_vectors_in_chunks(draw: Draw) -> Problem:
    s = draw.normal(B, T, H, 48)
    sums = np.concatenate([_cumulative(s.values[:, rows], True) for rows in CHUNKS], axis=1)
    args = {"s": s, "o": poisoned(sums, "f32"), "T": T}
    constants = {"B": B, "H": H, "S": 48, "BT": BT, "BS": 32, "REVERSE": True, "HAS_SCALE": False}
    return Problem((2 * len(CHUNKS), B * H), args, constants)


@kernel(f"{OPS}.utils.cumsum:chunk_global_cumsum_scalar_kernel")
def cumsum_of_all(draw: Draw) -> Problem:
    s = draw.normal(B, T, H)
    args = {"s": s, "o": poisoned(_cumulative(s.values, True), "f32"), "T": T}
    return Problem(
        B * H, args, {"B": B, "H": H, "BT": 128, "REVERSE": True, "HAS_SCALE": False, "IS_VARLEN": False}
    )


@kernel(f"{OPS}.utils.cumsum:chunk_global_cumsum_vector_kernel")
def cumsum_of_all_vectors(draw: Draw) -> Problem:
    s = draw.normal(B, T, H, 48)
    args = {"s": s, "o": poisoned(_cumulative(s.values, False), "f32"), "T": T}
    constants = {
        "B": B,
        "H": H,
        "S": 48,
        "BT": 32,
        "BS": 32,
        "REVERSE": False,
        "HAS_SCALE": False,
        "IS_VARLEN": False,
    }
    return Problem(2 * B * H, args, constants)


@kernel(f"{OPS}.utils.matmul:matmul_kernel", ("80", "100a"))
def matmul(draw: Draw) -> Problem:
    m, n, k = 200, 136, 96
    a, b, bias = draw.normal(m, k, kind="f16"), draw.normal(k, n, kind="f16"), draw.normal(n)
    product = np.maximum(a.values @ b.values, 0) * 1.25 + bias.values
    args = {
        "a": a, "b": b, "c": poisoned(product, "f16"), "input": bias, "alpha": Tensor([1.25], "f32"),
        "M": m, "N": n,
        "K": k, "stride_ab": m * k, "stride_am": k, "stride_ak": 1, "stride_bk": n, "stride_bn": 1,
        "stride_cb": m * n, "stride_cm": n, "stride_cn": 1,
    }  # fmt: skip
    constants = {"BM": 128, "BK": 32, "BN": 64, "G": 4, "ACTIVATION": "relu", "HAS_INPUT": True,
                 "HAS_ALPHA": True,
                 "HAS_BETA": False, "ALLOW_TF32": True, "X_DIM": 1}  # fmt: skip
    return Problem((1, 2, 3), args, constants)


@kernel(f"{OPS}.utils.softmax:softmax_fwd_kernel")
def softmax_forward(draw: Draw) -> Problem:
    x = draw.normal(5, 200, kind="f16")
    return Problem(5, {"x": x, "p": poisoned(softmax(x.values), "f16")}, {"D": 200, "B": 256})


@kernel(f"{OPS}.utils.softmax:softmax_bwd_kernel")
def softmax_backward(draw: Draw) -> Problem:
    p, dp = Tensor(softmax(draw.normal(5, 200).values), "f32"), draw.normal(5, 200)
    ds = p.values * (dp.values - (p.values * dp.values).sum(1, keepdims=True))
    return Problem(5, {"p": p, "dp": dp, "ds": poisoned(ds, "f32")}, {"D": 200, "B": 256})


@kernel(f"{OPS}.utils.logsumexp:logsumexp_fwd_kernel")
def logsumexp(draw: Draw) -> Problem:
    x = draw.normal(5, 512)
    parts = np.log(np.exp(x.values * 0.5).reshape(5, 2, 256).sum(-1))
    args = {"x": x, "z": poisoned(parts, "f32"), "scale": 0.5}
    return Problem((5, 2), args, {"D": 512, "B": 256, "HAS_SCALE": True})


@kernel(f"{OPS}.utils.pooling:mean_pooling_fwd_kernel")
def mean_pooling_forward(draw: Draw) -> Problem:
    x = draw.normal(B, T, H, 48, kind="f16")
    means = np.stack([x.values[:, rows].mean(1) for rows in CHUNKS], axis=1)
    args = {"x": x, "o": poisoned(means, "f16"), "T": T}
    return Problem((len(CHUNKS), B * H), args, {"H": H, "D": 48, "BT": BT, "BD": 64, "IS_VARLEN": False})


@kernel(f"{OPS}.utils.pooling:mean_pooling_bwd_kernel")
def mean_pooling_backward(draw: Draw) -> Problem:
    do = draw.normal(B, len(CHUNKS), H, 48)
    dx = np.concatenate(
        [
            np.repeat(do.values[:, n : n + 1], r.stop - r.start, 1) / (r.stop - r.start)
            for n, r in enumerate(CHUNKS)
        ],
        axis=1,
    )
    args = {"do": do, "dx": poisoned(dx, "f32"), "T": T}
    return Problem((len(CHUNKS), B * H), args, {"H": H, "D": 48, "BT": BT, "BD": 64, "IS_VARLEN": False})


@kernel(f"{OPS}.utils.solve_tril:solve_tril_16x16_kernel")
def inverse_of_a_triangle(draw: Draw) -> Problem:
    a = draw.normal(B, 64, H, 64, scale=0.2)
    inverse = np.zeros((B, 64, H, 16))
    for start in range(0, 64, 16):
        for head in range(H):
            block = np.tril(a.values[0, start : start + 16, head, start : start + 16], -1)
            inverse[0, start : start + 16, head] = np.linalg.inv(np.eye(16) + block)
    args = {"A": a, "Ai": poisoned(inverse, "f32", tolerance=1e-4), "T": 64}
    return Problem(
        (4, B * H), args, {"H": H, "BT": 64, "USE_TMA": False, "IS_VARLEN": False, "DOT_PRECISION": "ieee"}
    )


def _w_and_u(draw: Draw, with_gates: bool):
    k, v = (draw.normal(B, T, H, K, kind="bf16", scale=0.5) for _ in range(2))
    a, beta, g = draw.normal(B, T, H, BT, kind="bf16", scale=0.2), draw.uniform(B, T, H), _gates(draw)
    w, u = np.zeros((B, T, H, K)), np.zeros((B, T, H, V))
    for rows in CHUNKS:
        for head in range(H):
            ks, vs, bs, gs = (x.values[0, rows, head] for x in (k, v, beta, g))
            matrix = a.values[0, rows, head, : len(ks)]
            u[0, rows, head] = matrix @ (vs * bs[:, None])
            w[0, rows, head] = matrix @ (ks * bs[:, None] * (np.exp2(gs)[:, None] if with_gates else 1))
    args = {
        "k": k, "v": v, "beta": beta, "w": poisoned(w, "bf16", tolerance=0.03),
        "u": poisoned(u, "bf16", tolerance=0.03), "A": a, "T": T,
    }  # fmt: skip
    return {**args, "g": g} if with_gates else args


@kernel(f"{OPS}.delta_rule.wy_fast:recompute_w_u_fwd_kernel", MMA)
def delta_rule_w_and_u(draw: Draw) -> Problem:
    constants = {name: value for name, value in SIZES.items() if name != "HV"}
    return Problem((len(CHUNKS), B * H), _w_and_u(draw, False), constants)


@kernel(f"{OPS}.gated_delta_rule.wy_fast:recompute_w_u_fwd_kernel", MMA)
def gated_delta_rule_w_and_u(draw: Draw) -> Problem:
    return Problem((len(CHUNKS), B * H), _w_and_u(draw, True), {**SIZES, "USE_G": True})


@kernel(f"{OPS}.common.chunk_delta_h:chunk_gated_delta_rule_fwd_kernel_h_blockdim64", MMA)
def gated_delta_rule_states(draw: Draw) -> Problem:
    k, v, w = (draw.normal(B, T, H, K, kind="bf16", scale=0.2) for _ in range(3))
    g = _gates(draw)
    states, new, last = np.zeros((B, len(CHUNKS), H, K, V)), np.zeros((B, T, H, V)), np.zeros((H, K, V))
    for number, rows in enumerate(CHUNKS):
        states[0, number] = last
        for head in range(H):
            ks, vs, ws, gs = (x.values[0, rows, head] for x in (k, v, w, g))
            fresh = vs - ws @ last[head]
            new[0, rows, head] = fresh
            last[head] = last[head] * np.exp2(gs[-1]) + ks.T @ (fresh * np.exp2(gs[-1] - gs)[:, None])
    args = {
        "k": k, "v": v, "w": w, "v_new": poisoned(new, "bf16", tolerance=0.03), "g": g,
        "h": poisoned(states, "bf16", tolerance=0.03), "ht": poisoned(last[None], "f32", tolerance=0.03),
        "T": T,
    }  # fmt: skip
    constants = {"H": H, "HV": H, "K": K, "V": V, "BT": BT, "BV": 32, "USE_G": True,
                 "STORE_FINAL_STATE": True,
                 "SAVE_NEW_VALUE": True}  # fmt: skip
    return Problem(2 * B * H, args, constants)


def _attention(draw: Draw):
    q, k, v, do = (draw.normal(B, T, H, K, kind="f16") for _ in range(4))
    p, o, lse = np.zeros((H, T, T)), np.zeros((B, T, H, V)), np.zeros((B, T, H))
    for head in range(H):
        scores = q.values[0, :, head] @ k.values[0, :, head].T * SCALE
        scores[np.triu_indices(T, 1)] = -np.inf
        p[head] = softmax(scores)
        o[0, :, head] = p[head] @ v.values[0, :, head]
        lse[0, :, head] = np.log2(np.exp(scores).sum(1))
    return q, k, v, do, p, o, lse


NO_TURN = {
    "never written": "The loop over earlier keys is pipelined. Its first load of the scores from tensor"
    " memory is also made for the first queries, whose loop has no turn, and nothing uses what it brings."
}
ATTENTION = {"B": B, "H": H, "HQ": H, "G": 1, "K": K, "V": V, "BK": 64, "BV": 64, "USE_G": False,
             "USE_WINDOW": False,
             "IS_VARLEN": False}  # fmt: skip


@kernel(f"{OPS}.attn.parallel:parallel_attn_fwd_kernel", MMA, findings=NO_TURN)
def attention_forward(draw: Draw) -> Problem:
    q, k, v, _, _, o, lse = _attention(draw)
    args = {
        "q": q, "k": k, "v": v, "o": poisoned(o, "f16", tolerance=5e-3),
        "lse": poisoned(lse, "f32", tolerance=1e-3),
        "scale": SCALE, "T": T,
    }  # fmt: skip
    return Problem((2, B * H), args, {**ATTENTION, "BT": 128, "BS": 32})


@kernel(f"{OPS}.attn.parallel:parallel_attn_bwd_kernel_preprocess")
def attention_backward_products(draw: Draw) -> Problem:
    o, do = draw.normal(7, 60, kind="f16"), draw.normal(7, 60, kind="f16")
    args = {"o": o, "do": do, "delta": poisoned((o.values * do.values).sum(1), "f32")}
    return Problem(7, args, {"B": 64, "V": 60})


def _attention_gradients(draw: Draw):
    q, k, v, do, p, o, lse = _attention(draw)
    delta = (o * do.values).sum(-1)
    dq, dk, dv = np.zeros((B, T, H, K)), np.zeros((B, T, H, K)), np.zeros((B, T, H, V))
    for head in range(H):
        dp = do.values[0, :, head] @ v.values[0, :, head].T
        ds = p[head] * (dp - delta[0, :, head, None])
        dq[0, :, head] = ds @ k.values[0, :, head] * SCALE
        dk[0, :, head] = ds.T @ q.values[0, :, head] * SCALE
        dv[0, :, head] = p[head].T @ do.values[0, :, head]
    args = {"q": q, "k": k, "v": v, "lse": Tensor(lse, "f32"), "delta": Tensor(delta, "f32"), "do": do,
            "scale": SCALE,
            "T": T}  # fmt: skip
    return args, dq, dk, dv


@kernel(f"{OPS}.attn.parallel:parallel_attn_bwd_kernel_dq", MMA, findings=NO_TURN)
def attention_gradient_of_q(draw: Draw) -> Problem:
    args, dq, _, _ = _attention_gradients(draw)
    return Problem(
        (2, B * H), {**args, "dq": poisoned(dq, "f32", tolerance=1e-2)}, {**ATTENTION, "BT": 128, "BS": 32}
    )


@kernel(f"{OPS}.attn.parallel:parallel_attn_bwd_kernel_dkv", MMA)
def attention_gradients_of_k_and_v(draw: Draw) -> Problem:
    args, _, dk, dv = _attention_gradients(draw)
    args |= {"dk": poisoned(dk, "f32", tolerance=1e-2), "dv": poisoned(dv, "f32", tolerance=1e-2)}
    return Problem((2, B * H), args, {**ATTENTION, "BT": 128, "BS": 32})


@kernel(f"{OPS}.common.fused_recurrent:fused_recurrent_fwd_kernel", warps=1)
def recurrent_gated_attention(draw: Draw) -> Problem:
    length = 20
    q, k, v = draw.normal(B, length, H, 32), draw.normal(B, length, H, 32), draw.normal(B, length, H, 32)
    gk = draw.uniform(B, length, H, 32, low=-0.5, high=0)
    state, out = np.zeros((H, 32, 32)), np.zeros((1, B, length, H, 32))
    for t in range(length):
        state = (
            state * np.exp(gk.values[0, t])[:, :, None]
            + k.values[0, t][:, :, None] * v.values[0, t][:, None, :]
        )
        out[0, 0, t] = (state * (q.values[0, t] * 0.3)[:, :, None]).sum(1)
    args = {
        "q": q, "k": k, "v": v, "gk": gk, "o": poisoned(out, "f32", tolerance=1e-4),
        "ht": poisoned(state[None], "f32", tolerance=1e-4), "scale": 0.3, "B": B, "T": length,
    }  # fmt: skip
    constants = {"H": H, "K": 32, "V": 32, "BK": 32, "BV": 16, "USE_GK": True, "STORE_FINAL_STATE": True}
    return Problem(2 * B * H, args, constants)


def _hgrn(draw: Draw, length: int, width: int):
    x, g = draw.normal(B, length, width), draw.uniform(B, length, width, low=-1, high=0)
    out, state = np.zeros((B, length, width)), np.zeros((B, width))
    for t in range(length):
        state = np.exp(g.values[:, t]) * state + x.values[:, t]
        out[:, t] = state
    return x, g, out


@kernel(f"{OPS}.hgrn.fused_recurrent:fused_recurrent_hgrn_fwd_kernel")
def hgrn_recurrent_forward(draw: Draw) -> Problem:
    x, g, out = _hgrn(draw, 24, 100)
    args = {"x": x, "g": g, "o": poisoned(out, "f32"), "ht": poisoned(out[:, -1], "f32"), "T": 24}
    return Problem(B, args, {"D": 100, "BD": 128, "STORE_FINAL_STATE": True})


@kernel(f"{OPS}.hgrn.fused_recurrent:fused_recurrent_hgrn_bwd_kernel")
def hgrn_recurrent_backward(draw: Draw) -> Problem:
    _, g, out = _hgrn(draw, 24, 100)
    o, do = Tensor(out, "f32"), draw.normal(B, 24, 100)
    dx, dg, dh = np.zeros_like(out), np.zeros_like(out), np.zeros((B, 100))
    for t in range(23, -1, -1):
        dh = dh + do.values[:, t]
        dx[:, t] = dh
        dh = dh * np.exp(g.values[:, t])
        dg[:, t] = dh * (o.values[:, t - 1] if t else 0)
    args = {"g": g, "o": o, "dx": poisoned(dx, "f32"), "dg": poisoned(dg, "f32"), "do": do, "T": 24}
    return Problem(B, args, {"D": 100, "BD": 128})


@kernel(f"{OPS}.hgrn.chunk:chunk_hgrn_fwd_kernel_h")
def hgrn_chunk_states(draw: Draw) -> Problem:
    length, width, size = 40, 100, 16
    x, g, _ = _hgrn(draw, length, width)
    out, sums = np.zeros((B, length, width)), np.zeros((B, length, width))
    for t in range(length):
        first = t % size == 0
        out[:, t] = x.values[:, t] + (0 if first else np.exp(g.values[:, t]) * out[:, t - 1])
        sums[:, t] = g.values[:, t] + (0 if first else sums[:, t - 1])
    args = {"x": x, "g": g, "gc": poisoned(sums, "f32"), "o": poisoned(out, "f32"), "T": length}
    return Problem((3, B), args, {"D": width, "BT": size, "BD": 128})


@kernel(f"{OPS}.hgrn.chunk:chunk_hgrn_fwd_kernel_o")
def hgrn_chunk_output(draw: Draw) -> Problem:
    length, width, size = 48, 100, 16
    gc, o = draw.uniform(B, length, width, low=-1, high=0), draw.normal(B, length, width)
    out = o.values.copy()
    for start in range(size, length, size):
        out[:, start : start + size] += np.exp(gc.values[:, start : start + size]) * out[:, start - 1 : start]
    args = {"gc": gc, "o": o.becomes(out), "s_b": length * width, "s_t": width, "s_d": 1, "T": length}
    return Problem((1, B), args, {"D": width, "BT": size, "BD": 128})
