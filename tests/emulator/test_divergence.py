"""Lanes that part and join: order, convergence, masks, and what happens when lanes never come together."""

import itertools
import random

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.core.order import weak_topological_order
from cutecourse.emulator.errors import DeadlockError, DivergedWarp, InvalidOperand

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def run(body, *, block=32, grid=1, outside="", target="sm_80", **launched):
    text = f"""{HEAD.replace("sm_80", target)}{outside}
.visible .entry tested(.param .u64 out)
{{
    .reg .b32 %t, %x, %y, %z, %r<8>;
    .reg .b64 %to;
    .reg .pred %p<4>;
    ld.param.u64 %to, [out];
    mov.u32 %t, %tid.x;
    mad.wide.u32 %to, %t, 4, %to;
    mov.u32 %x, 0;
{body}
    st.global.u32 [%to], %x;
    ret;
}}
"""
    out = np.full(block, 0xCDCDCDCD, dtype=np.uint32)
    result = launch(text, grid=grid, block=block, args=[out], **launched)
    return out, result


def test_divergence__a_join_runs_once_for_all_lanes():
    out, result = run(
        "and.b32 %y, %t, 1;\nsetp.eq.u32 %p0, %y, 0;\n@%p0 bra even;\nadd.u32 %x, %x, 5;\nbra join;\n"
        "even:\nadd.u32 %x, %x, 7;\njoin:\npopc.b32 %y, %x;"
    )
    np.testing.assert_array_equal(out, np.where(np.arange(32) % 2, 5, 7))
    assert result.instructions["popc.b32"] == 1
    assert result.instructions["add.u32"] == 2


def test_divergence__an_out_of_line_block_still_joins_before_the_rest():
    _, result = run(
        "setp.eq.u32 %p0, %t, 3;\n@%p0 bra cold;\njoin:\npopc.b32 %y, %x;\nst.global.u32 [%to], %y;\nret;\n"
        "cold:\nadd.u32 %x, %x, 7;\nbra join;"
    )
    assert result.instructions["popc.b32"] == 1


def test_divergence__lanes_that_leave_a_loop_wait_behind_it():
    out, result = run("loop:\nadd.u32 %x, %x, 1;\nsetp.lt.u32 %p0, %x, %t;\n@%p0 bra loop;\npopc.b32 %y, %x;")
    np.testing.assert_array_equal(out, np.maximum(np.arange(32), 1))
    assert result.instructions["popc.b32"] == 1
    assert result.instructions["add.u32"] == 31


def test_divergence__calls_join_behind_the_call():
    _, result = run(
        "setp.lt.u32 %p0, %t, 9;\n@!%p0 bra skip;\ncall (%x), f, (%t);\nskip:\npopc.b32 %y, %x;",
        outside=".func (.reg .u32 %r) f(.reg .u32 %a) { .reg .pred %p; setp.lt.u32 %p, %a, 4; @%p bra low;"
        " add.u32 %r, %a, 100; ret; low: add.u32 %r, %a, 200; ret; }",
    )
    assert result.instructions["popc.b32"] == 1
    assert result.instructions["add.u32"] == 2


@pytest.mark.parametrize("seed", range(5))
def test_divergence__random_programs_agree_with_a_lane_by_lane_interpreter(seed):
    rng = random.Random(seed)
    blocks = 7
    code, model = [], []
    for number in range(blocks):
        add, modulus, compare = rng.randrange(1, 9), rng.randrange(2, 5), rng.randrange(4)
        target = rng.randrange(blocks + 1)
        code.append(
            f"b{number}:\nadd.u32 %x, %x, {add};\nxor.b32 %y, %x, %t;\nrem.u32 %y, %y, {modulus};\n"
            f"add.u32 %z, %z, 1;\nsetp.ge.u32 %p1, %z, 60;\n@%p1 bra b{blocks};\n"
            f"setp.eq.u32 %p0, %y, {compare};\n@%p0 bra b{target};"
        )
        model.append((add, modulus, compare, target))
    out, _ = run("mov.u32 %z, 0;\n" + "\n".join(code) + f"\nb{blocks}:", block=64, seed=seed)

    def lane(t):
        x = z = at = 0
        while at < blocks:
            add, modulus, compare, target = model[at]
            x, z = x + add, z + 1
            if z >= 60:
                break
            at = target if (x ^ t) % modulus == compare else at + 1
        return x

    np.testing.assert_array_equal(out, [lane(t) for t in range(64)])


def test_divergence__a_lane_that_spins_does_not_keep_others_away():
    out, _ = run(
        "setp.ne.u32 %p0, %t, 0;\n@!%p0 bra writer;\nwait:\nld.volatile.global.u32 %x, [flag];\n"
        "setp.eq.u32 %p1, %x, 0;\n@%p1 bra wait;\nbra done;\nwriter:\nmov.u32 %x, 5;\n"
        "st.volatile.global.u32 [flag], %x;\ndone:",
        outside=".global .u32 flag;",
    )
    assert (out == 5).all()


def test_divergence__blocks_that_wait_for_each_other_all_get_their_turn():
    out, _ = run(
        "mov.u32 %y, %ctaid.x;\nsetp.eq.u32 %p0, %y, 0;\n@!%p0 bra write;\nwait:\n"
        "ld.volatile.global.u32 %x, [flag];\nsetp.lt.u32 %p1, %x, 9;\n@%p1 bra wait;\nbra done;\n"
        "write:\natom.global.add.u32 %x, [flag], 1;\nret;\ndone:",
        outside=".global .u32 flag;",
        grid=10,
        block=1,
    )
    assert out[0] == 9


# --- instructions that need lanes to be together ----------------------------------------------------------


def test_convergence__shuffles_wait_for_the_lanes_of_their_mask():
    out, result = run(
        "mov.u32 %y, %t;\nsetp.lt.u32 %p0, %t, 10;\n@%p0 bra low;\nadd.u32 %y, %y, 100;\nbra both;\n"
        "low:\nadd.u32 %y, %y, 200;\nboth:\nshfl.sync.idx.b32 %x, %y, 5, 31, -1;"
    )
    assert (out == 205).all()
    assert result.count("shfl") == 1


def test_convergence__two_halves_shuffle_on_their_own():
    out, result = run(
        "mov.u32 %y, %t;\nsetp.lt.u32 %p0, %t, 16;\n@%p0 bra low;\n"
        "shfl.sync.bfly.b32 %x, %y, 1, 31, 0xFFFF0000;\nbra done;\nlow:\n"
        "shfl.sync.bfly.b32 %x, %y, 2, 31, 0x0000FFFF;\ndone:"
    )
    np.testing.assert_array_equal(out, np.where(np.arange(32) < 16, np.arange(32) ^ 2, np.arange(32) ^ 1))
    assert result.count("shfl") == 2


def test_convergence__lanes_that_have_ended_are_not_waited_for():
    out, _ = run("setp.ge.u32 %p0, %t, 20;\n@%p0 exit;\nvote.sync.ballot.b32 %x, 1, -1;")
    assert (out[:20] == (1 << 20) - 1).all()


def test_convergence__a_lane_that_never_comes_is_an_error_that_names_the_lanes():
    with pytest.raises(DivergedWarp) as caught:
        run(
            "setp.lt.u32 %p0, %t, 4;\n@%p0 bra low;\nshfl.sync.idx.b32 %x, %t, 0, 31, -1;\nbra done;\nlow:\n"
            "vote.sync.ballot.b32 %x, 1, -1;\ndone:"
        )
    message = str(caught.value)
    assert "all lanes that its membermask names" in message
    assert "lanes 0-3" in message
    assert "lanes 4-31" in message


def test_convergence__a_mask_without_the_lane_itself_is_refused():
    with pytest.raises(InvalidOperand, match="membermask 0x0000000f does not name the lane") as caught:
        run("shfl.sync.idx.b32 %x, %t, 0, 31, 15;")
    assert caught.value.lane == 4


def test_convergence__guarded_collectives_involve_the_guarded_lanes_only():
    out, _ = run("setp.lt.u32 %p0, %t, 8;\nmov.u32 %x, 1000;\n@%p0 shfl.sync.bfly.b32 %x, %t, 1, 31, 0xFF;")
    np.testing.assert_array_equal(out, np.where(np.arange(32) < 8, np.arange(32) ^ 1, 1000))


def test_convergence__elect_chooses_one_lane():
    out, _ = run(
        "setp.lt.u32 %p0, %t, 3;\n@%p0 ret;\nelect.sync %y|%p1, -1;\nselp.u32 %x, 1, 0, %p1;", target="sm_90"
    )
    assert out[3:].sum() == 1


# --- barriers -----------------------------------------------------------------------------------------------


def test_barrier__whose_warp_never_comes_is_a_deadlock_with_every_waiting_warp():
    with pytest.raises(DeadlockError) as caught:
        run(
            "setp.lt.u32 %p0, %t, 32;\n@%p0 bra one;\nbar.sync 1, 64;\nbra done;\none:\nbar.sync 2, 64;"
            "\ndone:",
            block=64,
        )
    message = str(caught.value)
    assert "block (0, 0, 0) warp 0: line 19, waits at barrier 2: 32 of 64 threads have arrived" in message
    assert "block (0, 0, 0) warp 1: line 16, waits at barrier 1: 32 of 64 threads have arrived" in message


def test_barrier__without_a_count_does_not_wait_for_warps_that_have_ended():
    out, result = run("setp.ge.u32 %p0, %t, 64;\n@%p0 ret;\nbar.sync 0;\nmov.u32 %x, 3;", block=128)
    assert [note.hazard.name for note in result.notes] == ["barrier skipped"]
    np.testing.assert_array_equal(out, [3] * 64 + [0xCDCDCDCD] * 64)


def test_barrier__a_diverged_warp_is_named():
    with pytest.raises(DivergedWarp, match=r"bar\.sync 0 must be executed by all lanes of the warp together"):
        run("setp.lt.u32 %p0, %t, 4;\n@%p0 bra low;\nbar.sync 0;\nbra done;\nlow:\nbar.sync 0;\ndone:")


def test_barrier__unaligned_may_be_reached_from_two_places():
    out, _ = run(
        "setp.lt.u32 %p0, %t, 4;\n@%p0 bra low;\nbarrier.sync 0;\nmov.u32 %x, 1;\nbra done;"
        "\nlow:\nbarrier.sync 0;\n"
        "mov.u32 %x, 2;\ndone:",
        block=64,
    )
    np.testing.assert_array_equal(out, np.where(np.arange(64) < 4, 2, 1))


@pytest.mark.parametrize(
    ("barrier", "message"),
    [
        ("bar.sync 0, 33;", "33 threads at barrier 0: the number must be a multiple of 32"),
        ("bar.sync 16;", "barrier 16 does not exist: there are 16"),
        ("bar.sync %t;", "the barrier's number of bar.sync is 0 in one lane but 1 in another"),
        ("bar.sync 1, 32;\nbar.sync 1, 32;\nbar.arrive 2, 64;\nbar.arrive 2, 64;\nbar.arrive 2, 64;", ""),
    ],
)
def test_barrier__wrong_operands(barrier, message):
    if not message:
        run(barrier)
        return
    with pytest.raises(Exception, match=message):
        run(barrier)


def test_barrier__counts_that_disagree_are_an_error():
    with pytest.raises(Exception, match="threads at barrier 1, but others wait for"):
        run(
            "setp.lt.u32 %p0, %t, 32;\n@%p0 bra one;\nbar.sync 1, 64;\nbra done;\none:\nbar.sync 1, 96;"
            "\ndone:",
            block=64,
        )


@pytest.mark.parametrize(("seed", "grid"), list(itertools.product(range(4), (1, 7))))
def test_barrier__a_ring_of_warps_in_every_order(seed, grid):
    # Each round a warp adds what its neighbour wrote in the round before.
    out, _ = run(
        ".shared .align 4 .b8 ring[1024];\nmov.u32 %r0, ring;\nmad.lo.u32 %r1, %t, 4, %r0;"
        "\nadd.u32 %r2, %t, 32;\n"
        "and.b32 %r2, %r2, 127;\nmad.lo.u32 %r2, %r2, 4, %r0;\nmov.u32 %x, %t;\nmov.u32 %z, 0;\nloop:\n"
        "st.shared.u32 [%r1], %x;\nbar.sync 0;\nld.shared.u32 %y, [%r2];\nbar.sync 0;\nadd.u32 %x, %x, %y;\n"
        "add.u32 %z, %z, 1;\nsetp.lt.u32 %p0, %z, 5;\n@%p0 bra loop;",
        block=128,
        grid=grid,
        seed=seed,
    )
    want = np.arange(128, dtype=np.uint32)
    for _ in range(5):
        want = want + want[(np.arange(128) + 32) % 128]
    np.testing.assert_array_equal(out, want)


def test_cluster__blocks_know_their_rank_and_their_shared_addresses_carry_it():
    text = """.version 8.0
.target sm_90
.address_size 64
.visible .entry tested(.param .u64 out)
{
    .reg .b32 %b, %r<6>;
    .reg .b64 %to;
    .shared .align 4 .b8 box[4];
    ld.param.u64 %to, [out];
    mov.u32 %b, %ctaid.x;
    mad.wide.u32 %to, %b, 16, %to;
    mov.u32 %r0, %cluster_ctarank;
    mov.u32 %r1, %cluster_nctarank;
    mov.u32 %r2, %clusterid.x;
    mov.u32 %r3, box;
    st.shared.u32 [box], %b;
    ld.shared::cluster.u32 %r4, [%r3];
    shr.u32 %r3, %r3, 24;
    mad.lo.u32 %r3, %r3, 1000, %r4;
    st.global.v4.u32 [%to], {%r0, %r1, %r2, %r3};
    ret;
}
"""
    out = np.zeros((12, 4), dtype=np.uint32)
    launch(text, grid=12, block=1, cluster=4, args=[out])
    b = np.arange(12)
    np.testing.assert_array_equal(out, np.stack([b % 4, b * 0 + 4, b // 4, b % 4 * 1000 + b], axis=1))


# --- the order of blocks ------------------------------------------------------------------------------------


def test_order__puts_a_join_behind_the_ways_that_lead_to_it():
    # 0 -> 1 | 3; 1 -> 2; 3 -> 1 (out of line)
    ranks = weak_topological_order([[3, 1], [2], [], [1]], [0])
    assert ranks[0] < ranks[3] < ranks[1] < ranks[2]


def test_order__keeps_a_loop_together_before_what_follows():
    # 0 -> 1; 1 -> 2 | 3; 2 -> 1; 3 end
    ranks = weak_topological_order([[1], [3, 2], [1], []], [0])
    assert ranks == [0, 1, 2, 3]


def test_order__holds_for_every_forward_edge_of_random_graphs():
    rng = random.Random(7)
    for _ in range(50):
        n = rng.randrange(2, 12)
        edges = [sorted({rng.randrange(i + 1, n) for _ in range(2)}) if i + 1 < n else [] for i in range(n)]
        names = list(range(n))
        rng.shuffle(names)
        successors = [[] for _ in range(n)]
        for i, targets in enumerate(edges):
            successors[names[i]] = [names[t] for t in targets]
        ranks = weak_topological_order(successors, [names[0]])
        assert sorted(ranks) == list(range(n))
        for source, targets in enumerate(successors):
            for target in targets:
                assert ranks[source] < ranks[target]


def test_order__long_chains_and_deep_nests_end():
    n = 3000
    chain = [[i + 1] for i in range(n - 1)] + [[]]
    assert weak_topological_order(chain, [0]) == list(range(n))
    nest = [[i + 1, max(0, i - 1)] for i in range(n - 1)] + [[0]]
    assert sorted(weak_topological_order(nest, [0])) == list(range(n))


@pytest.mark.parametrize(
    ("block", "first", "barrier", "said"),
    [
        (128, 64, "bar.sync 0;", "all 128 threads of the block, but 64 of them ended"),
        (96, 64, "barrier.sync 3;", "barrier 3 is for all 96 threads of the block, but 32 of them ended"),
        (96, 32, "bar.red.popc.u32 %y, 0, %p0;", "all 96 threads of the block, but 64 of them ended"),
        (128, 64, "bar.sync 0, 64;", None),
        (128, 128, "bar.sync 0;", None),
        (100, 100, "bar.sync 0;", None),
    ],
)
def test_barrier__that_threads_skip_is_told_under_every_seed(block, first, barrier, said):
    body = f"setp.ge.u32 %p0, %t, {first};\n@%p0 bra over;\n{barrier}\nadd.u32 %x, %x, 1;\nover:\n"
    for seed in range(4):
        out, result = run(body, block=block, grid=3, seed=seed)
        assert out.tolist() == [1] * first + [0] * (block - first)
        problems = [note.problem for note in result.notes if note.severity == "warning"]
        assert len(problems) == (said is not None)
        assert said is None or said in problems[0]


def test_barrier__after_which_threads_end_is_skipped_by_nobody():
    body = "bar.sync 0;\nsetp.ge.u32 %p0, %t, 64;\n@%p0 ret;\nbar.sync 1, 64;\nmov.u32 %x, 3;"
    assert not run(body, block=128)[1].notes
