"""Blocks and batches: every entry in one batch of one worker of one rank."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from daf_query.training._batches import BlockPlan, Consumer, sampled_entries

PLANS = st.builds(
    BlockPlan,
    entries=st.integers(1, 200),
    batch_rows=st.integers(1, 20),
    block_rows=st.integers(1, 20),
    fetch_batches=st.integers(1, 5),
    seed=st.integers(0, 3),
    shuffle=st.booleans(),
    drop_last=st.booleans(),
)


def batches(plan: BlockPlan, epoch: int, ranks: int, workers: int) -> list[list[list[int]]]:
    """Return the batches of each rank."""
    return [
        [
            batch.tolist()
            for worker in range(workers)
            for fetch in plan.batches(epoch, Consumer(rank, ranks, worker, workers))
            for batch in fetch
        ]
        for rank in range(ranks)
    ]


@given(PLANS, st.integers(0, 3), st.integers(1, 4), st.integers(1, 4))
def test_every_entry_is_read_once(plan: BlockPlan, epoch: int, ranks: int, workers: int) -> None:
    """By all workers of all ranks, in the same batches for any number of workers."""
    of_ranks = batches(plan, epoch, ranks, workers)
    entries = [entry for rank in of_ranks for batch in rank for entry in batch]
    assert len(set(entries)) == len(entries)
    assert set(entries) <= set(range(plan.entries))
    for rank, found in enumerate(of_ranks):
        assert len(found) == plan.batch_count(Consumer(rank, ranks))
        assert sorted(found) == sorted(batches(plan, epoch, ranks, 1)[rank])
    if plan.drop_last:
        assert len({len(found) for found in of_ranks}) == 1
        assert all(len(batch) == plan.batch_rows for rank in of_ranks for batch in rank)
        assert plan.entries - len(entries) < ranks * plan.batch_rows + ranks
    else:
        assert len(entries) == plan.entries
        sizes = [sum(map(len, rank)) for rank in of_ranks]
        assert max(sizes) - min(sizes) <= 1


def test_without_shuffling_the_order_is_that_of_the_axis() -> None:
    """A DataLoader, which takes a batch of each worker in turn, keeps it."""
    plan = BlockPlan(100, 8, 16, 4, shuffle=False)
    of_workers = [list(plan.batches(0, Consumer(0, 1, worker, 3))) for worker in range(3)]
    in_turns = [of_workers[n % 3][n // 3] for n in range(13)]
    assert np.concatenate([b for fetch in in_turns for b in fetch]).tolist() == list(range(100))


def test_the_order_is_always_the_same_and_another_in_each_epoch() -> None:
    """These entries never change: the order hangs on seed and epoch alone."""
    plan = BlockPlan(1000, 4, 4, 2)
    first = next(iter(plan.batches(0, Consumer())))
    assert [batch.tolist() for batch in first] == FIRST_FETCH
    for epoch, seed in ((1, 0), (0, 1)):
        other = BlockPlan(1000, 4, 4, 2, seed=seed)
        assert [b.tolist() for b in next(iter(other.batches(epoch, Consumer())))] != FIRST_FETCH


def test_blocks_stay_together_in_a_fetch() -> None:
    """A fetch reads whole blocks of neighbours, and shuffles their rows into all batches."""
    plan = BlockPlan(100_000, 64, 16, 8)
    fetch = next(iter(plan.batches(3, Consumer())))
    entries = np.concatenate(fetch)
    blocks, counts = np.unique(entries // 16, return_counts=True)
    assert set(counts) == {16}
    assert np.abs(np.diff(blocks)).max() > 100
    assert all(np.unique(batch // 16).size > 16 for batch in fetch)


def test_entries_are_drawn_by_weight() -> None:
    """As often as weights say, to within five standard deviations; never those of weight 0."""
    weights = np.array([0.0, 1, 2, 0, 7, 0])
    entries = sampled_entries(weights, 50_000, 1, 2)
    counts = np.bincount(entries, minlength=6)
    expected = weights / weights.sum() * 50_000
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected)).all()
    assert (np.diff(entries) >= 0).all()
    assert sampled_entries(weights, 50_000, 1, 3).tolist() != entries.tolist()


FIRST_FETCH = [[929, 931, 934, 933], [930, 935, 928, 932]]
