"""fla-core: more kernels on chunks of 64 tokens, whose products use the tensor cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpus.kernels.fla import BT, CHUNKS, MMA, OPS, SCALE, SIZES, B, H, K, T, V, kernel
from benchmarks.corpus.problems import Draw, Problem, Tensor, poisoned

Array = NDArray[Any]
GRID = (len(CHUNKS), B * H)
NO_HV = {name: value for name, value in SIZES.items() if name != "HV"}
ITER = "generalized_delta_rule"


def _each(width: int, f: Callable[[int, Callable[[Tensor], Array], int], Array]) -> Array:
    """Return the (B, T, H, width) whose rows f gives, one chunk and head at a time.

    f gets the chunk's number, a function that cuts a tensor to the chunk and head, and the head.
    """
    out = np.zeros((B, T, H, width))
    for number, rows in enumerate(CHUNKS):
        for head in range(H):
            part = f(number, lambda x, rows=rows, head=head: x.values[0, rows, head], head)  # type: ignore[misc]
            out[0, rows, head, : part.shape[1]] = part
    return out


def _tokens(draw: Draw, width: int = K, scale: float = 0.4) -> Tensor:
    return draw.normal(B, T, H, width, kind="bf16", scale=scale)


def _states(draw: Draw) -> Tensor:
    return draw.normal(B, len(CHUNKS), H, K, V, kind="bf16", scale=0.3)


def _square(x: Array) -> Array:
    return x[:, : x.shape[0]]


def _near(values: Array) -> Tensor:
    return poisoned(values, "bf16", tolerance=0.03)


def _decays(draw: Draw) -> Tensor:
    """Logarithms to base 2 of each channel's decay up to each token of its chunk."""
    steps = draw.uniform(B, T, H, K, low=-0.05, high=0).values
    return Tensor(np.concatenate([np.cumsum(steps[:, rows], axis=1) for rows in CHUNKS], axis=1), "f32")


@kernel(f"{OPS}.common.chunk_o:chunk_bwd_kernel_dqkwg", MMA)
def chunk_gradients_of_q_and_k(draw: Draw) -> Problem:
    q, k, v, do = (_tokens(draw) for _ in range(4))
    h, dh = _states(draw), _states(draw)
    dq = _each(K, lambda n, at, i: SCALE * (at(do) @ h.values[0, n, i].T + np.tril(at(do) @ at(v).T) @ at(k)))
    dk = _each(K, lambda n, at, i: at(v) @ dh.values[0, n, i].T + SCALE * np.tril(at(do) @ at(v).T).T @ at(q))
    args = {"q": q, "k": k, "v": v, "h": h, "do": do, "dh": dh, "dq": _near(dq), "dk": _near(dk),
            "scale": SCALE,
            "T": T}  # fmt: skip
    return Problem(GRID, args, {"B": B, **SIZES})


@kernel(f"{OPS}.common.chunk_h:chunk_bwd_kernel_dh", MMA)
def chunk_gradient_of_states(draw: Draw) -> Problem:
    q, do = _tokens(draw), _tokens(draw)
    dh, last = np.zeros((B, len(CHUNKS), H, K, V)), np.zeros((H, K, V))
    for number in range(len(CHUNKS) - 1, -1, -1):
        dh[0, number] = last
        rows = CHUNKS[number]
        last = last + SCALE * np.einsum("thk,thv->hkv", q.values[0, rows], do.values[0, rows])
    args = {
        "q": q, "do": do, "dh": _near(dh), "dh0": poisoned(last[None], "f32", tolerance=0.03),
        "scale": SCALE, "T": T,
    }  # fmt: skip
    constants = {"HQ": H, **NO_HV, "BS": BT, "NG": 1, "STORE_INITIAL_STATE_GRADIENT": True}
    return Problem(B * H, args, constants)


@kernel(f"{OPS}.gla.chunk:chunk_gla_fwd_kernel_o", MMA)
def gla_output(draw: Draw) -> Problem:
    q, v, a, g, h = _tokens(draw), _tokens(draw), _tokens(draw, BT, 0.2), _decays(draw), _states(draw)
    out = _each(
        V,
        lambda n, at, i: (
            SCALE * ((at(q) * np.exp2(at(g))) @ h.values[0, n, i]) + np.tril(_square(at(a))) @ at(v)
        ),
    )
    args = {"q": q, "v": v, "g": g, "h": h, "o": _near(out), "A": a, "scale": SCALE, "T": T}
    return Problem(GRID, args, SIZES)


@kernel(f"{OPS}.gla.chunk:chunk_gla_bwd_kernel_dA", MMA)
def gla_gradient_of_scores(draw: Draw) -> Problem:
    v, do = _tokens(draw), _tokens(draw)
    da = _each(BT, lambda n, at, i: SCALE * np.tril(at(do) @ at(v).T))
    args = {"v": v, "do": do, "dA": poisoned(da, "f32", tolerance=1e-4), "scale": SCALE, "T": T}
    return Problem(GRID, args, {"H": H, "V": V, "BT": BT, "BV": 64, "IS_VARLEN": False})


@kernel(f"{OPS}.gla.chunk:chunk_gla_bwd_kernel_dv", MMA)
def gla_gradient_of_v(draw: Draw) -> Problem:
    k, do, a, g, dh = _tokens(draw), _tokens(draw), _tokens(draw, BT, 0.2), _decays(draw), _states(draw)
    dv = _each(
        V,
        lambda n, at, i: (
            np.tril(_square(at(a))).T @ at(do) + (at(k) * np.exp2(at(g)[-1] - at(g))) @ dh.values[0, n, i]
        ),
    )
    args = {"k": k, "g": g, "A": a, "do": do, "dh": dh, "dv": _near(dv), "T": T}
    return Problem(GRID, args, NO_HV)


@kernel(f"{OPS}.{ITER}.iplr.wy_fast:wu_fwd_kernel", MMA)
def iplr_w_and_u(draw: Draw) -> Problem:
    a, k, v, matrix = (_tokens(draw, scale=0.3) for _ in range(4))
    w = _each(K, lambda n, at, i: _square(at(matrix)) @ at(a))
    u = _each(V, lambda n, at, i: _square(at(matrix)) @ (np.tril(at(a) @ at(k).T, -1) @ at(v)))
    args = {"w": _near(w), "u": _near(u), "a": a, "k": k, "v": v, "A": matrix, "T": T}
    return Problem(GRID, args, NO_HV)


@kernel(f"{OPS}.{ITER}.dplr.wy_fast_fwd:wu_fwd_kernel", MMA)
def dplr_w_and_u(draw: Draw) -> Problem:
    ag, v, inverse, scores = (_tokens(draw, scale=0.3) for _ in range(4))
    w = _each(K, lambda n, at, i: np.tril(_square(at(inverse))) @ at(ag))
    u = _each(V, lambda n, at, i: np.tril(_square(at(inverse))) @ np.tril(_square(at(scores)), -1) @ at(v))
    args = {"w": _near(w), "u": _near(u), "ag": ag, "v": v, "A_ab_inv": inverse, "A_ak": scores, "T": T}
    return Problem(GRID, args, NO_HV)


@kernel(f"{OPS}.{ITER}.dplr.chunk_o_fwd:chunk_dplr_fwd_kernel_o", MMA)
def dplr_output(draw: Draw) -> Problem:
    qg, v, new, qk, qb, h = *(_tokens(draw, scale=0.3) for _ in range(5)), _states(draw)
    out = _each(
        V,
        lambda n, at, i: (
            at(qg) @ h.values[0, n, i] + np.tril(_square(at(qk))) @ at(v) + np.tril(_square(at(qb))) @ at(new)
        ),
    )
    args = {"qg": qg, "v": v, "v_new": new, "A_qk": qk, "A_qb": qb, "h": h, "o": _near(out), "T": T}
    return Problem(GRID, args, NO_HV)


@kernel(f"{OPS}.{ITER}.iplr.chunk:chunk_generalized_iplr_delta_rule_fwd_kernel_o", MMA)
def iplr_output(draw: Draw) -> Problem:
    q, k, v, u, b, h = *(_tokens(draw) for _ in range(5)), _states(draw)
    out = _each(
        V,
        lambda n, at, i: (
            SCALE
            * (
                at(q) @ h.values[0, n, i]
                + np.tril(at(q) @ at(k).T) @ at(v)
                + np.tril(at(q) @ at(b).T) @ at(u)
            )
        ),
    )
    args = {"q": q, "k": k, "v": v, "u": u, "b": b, "h": h, "o": _near(out), "scale": SCALE, "T": T}
    return Problem(GRID, args, NO_HV)


@kernel(f"{OPS}.kda.wy_fast:recompute_w_u_fwd_kda_kernel", MMA)
def kda_w_and_u(draw: Draw) -> Problem:
    q, k, v, a, g = _tokens(draw), _tokens(draw), _tokens(draw), _tokens(draw, BT, 0.2), _decays(draw)
    beta = draw.uniform(B, T, H)
    column = lambda at: at(beta)[:, None]  # noqa: E731
    w = _each(K, lambda n, at, i: _square(at(a)) @ (at(k) * column(at) * np.exp2(at(g))))
    u = _each(V, lambda n, at, i: _square(at(a)) @ (at(v) * column(at)))
    qg = _each(K, lambda n, at, i: at(q) * np.exp2(at(g)))
    kg = _each(K, lambda n, at, i: at(k) * np.exp2(at(g)[-1] - at(g)))
    args = {
        "q": q, "k": k, "qg": _near(qg), "kg": _near(kg), "v": v, "beta": beta, "w": _near(w),
        "u": _near(u), "A": a,
        "gk": g, "T": T,
    }  # fmt: skip
    return Problem(GRID, args, {**SIZES, "STORE_QG": True, "STORE_KG": True})


@kernel(f"{OPS}.common.chunk_h_parallel:chunk_fwd_kernel_h_parallel", MMA)
def parallel_chunk_states(draw: Draw) -> Problem:
    k, v, h0 = _tokens(draw), _tokens(draw), draw.normal(B, H, K, V)
    each = np.stack([np.einsum("thk,thv->hkv", k.values[0, rows], v.values[0, rows]) for rows in CHUNKS])
    states = np.concatenate([h0.values, each[:-1]])
    args = {
        "k": k, "v": v, "h": poisoned(states[None], "f32", tolerance=1e-3), "h0": h0,
        "ht": poisoned(each[-1:], "f32", tolerance=1e-3), "T": T,
    }  # fmt: skip
    return Problem(GRID, args, {**NO_HV, "USE_INITIAL_STATE": True, "STORE_FINAL_STATE": True})


@kernel(f"{OPS}.{ITER}.dplr.chunk_o_bwd:chunk_dplr_bwd_kernel_dv", MMA)
def dplr_gradient_of_v(draw: Draw) -> Problem:
    qk, kg, do, dh = *(_tokens(draw, scale=0.3) for _ in range(3)), _states(draw)
    dv = _each(V, lambda n, at, i: at(kg) @ dh.values[0, n, i] + np.tril(_square(at(qk))).T @ at(do))
    return Problem(GRID, {"A_qk": qk, "kg": kg, "do": do, "dv": _near(dv), "dh": dh, "T": T}, NO_HV)


@kernel(f"{OPS}.{ITER}.iplr.chunk:chunk_generalized_iplr_delta_rule_fwd_kernel_h", MMA)
def iplr_states(draw: Draw) -> Problem:
    k, v, d, b, u = (_tokens(draw, scale=0.2) for _ in range(5))
    states, new, last = np.zeros((B, len(CHUNKS), H, K, V)), np.zeros((B, T, H, V)), np.zeros((H, K, V))
    for number, rows in enumerate(CHUNKS):
        states[0, number] = last
        for head in range(H):
            ks, vs, ds, bs, us = (x.values[0, rows, head] for x in (k, v, d, b, u))
            new[0, rows, head] = ds @ last[head] + us
            last[head] = last[head] + ks.T @ vs + bs.T @ new[0, rows, head]
    args = {
        "k": k, "v": v, "d": d, "b": b, "u": u, "v_new": _near(new), "h": _near(states),
        "ht": poisoned(last[None], "f32", tolerance=0.03), "T": T,
    }  # fmt: skip
    return Problem(B * H, args, {**NO_HV, "BC": BT, "STORE_FINAL_STATE": True})


@kernel(f"{OPS}.common.chunk_h_split:chunk_fwd_kernel_h_split", MMA)
def split_chunk_states(draw: Draw) -> Problem:
    k, v, h0 = _tokens(draw), _tokens(draw), draw.normal(B, H, K, V)
    cut = 2 * BT
    halves = np.stack(
        [
            np.einsum("thk,thv->hkv", k.values[0, part], v.values[0, part])
            for part in (slice(0, cut), slice(cut, T))
        ]
    )
    halves[0] += h0.values[0]
    first = np.zeros((2, H, 1, 1))
    first[0] = 1
    args = {
        "k": k, "v": v, "hs": poisoned(halves, "f32", tolerance=1e-3),
        "hr": Tensor(np.zeros((2, H, K, V)), "f32").becomes(first * h0.values), "h0": h0,
        "ht": Tensor(np.zeros((B, H, K, V)), "f32").becomes(np.zeros((B, H, K, V))), "T": T,
    }  # fmt: skip
    constants = {**NO_HV, "S": cut, "USE_INITIAL_STATE": True, "STORE_FINAL_STATE": True}
    return Problem(2 * H, args, constants)


@kernel(f"{OPS}.gated_oja_rule.chunk_o:chunk_oja_fwd_inter", MMA)
def oja_output(draw: Draw) -> Problem:
    q, k, h, gv = _tokens(draw), _tokens(draw), _states(draw), draw.uniform(B, T, H, V, low=-1, high=0)
    out = _each(V, lambda n, at, i: SCALE * (at(q) @ h.values[0, n, i]) * np.exp(at(gv)))
    scores = _each(BT, lambda n, at, i: SCALE * np.tril(at(q) @ at(k).T))
    args = {
        "q": q, "k": k, "h": h, "gv": gv, "o": _near(out), "A": poisoned(scores, "f32", tolerance=0.03),
        "scale": SCALE, "T": T,
    }  # fmt: skip
    return Problem(GRID, args, {"HQ": H, **NO_HV, "NG": 1})
