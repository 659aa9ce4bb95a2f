"""Arrays of any layout, for Hypothesis."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np

from oracle import (
    INTEGERS,
    SMALL,
    TYPES,
)

INTEGER_TYPES = INTEGERS + SMALL


@st.composite
def strided_arrays(draw: st.DrawFn, types: list[np.dtype] = TYPES) -> np.ndarray:
    """Arrays of every order, stride, alignment and byte order, of small numbers."""
    dtype = draw(st.sampled_from(types))
    rank = draw(st.integers(0, 5))
    shape = draw(st.tuples(*[st.integers(0, 7)] * rank))
    steps = draw(st.tuples(*[st.sampled_from([1, 1, 2, 3, -1, -2])] * rank))
    order = draw(st.permutations(range(rank)))
    seed = draw(st.integers(0, 2**32 - 1))
    held = [abs(step) * n for step, n in zip(steps, shape, strict=True)]
    held = [held[i] for i in order]
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 200, held) / (1 if dtype in INTEGER_TYPES else 8)
    x = values.astype(np.int64).astype(dtype) if dtype in SMALL else values.astype(dtype)
    if draw(st.booleans()) and dtype.name != "bfloat16":
        x = x.astype(dtype.newbyteorder())
    if draw(st.booleans()):
        memory = np.zeros(x.nbytes + 1, np.uint8)
        unaligned = memory[1:].view(x.dtype) if x.size else memory[:0].view(x.dtype)
        unaligned = unaligned.reshape(x.shape)
        unaligned[...] = x
        x = unaligned
    x = x.transpose(np.argsort(order)) if rank else x
    x = x[tuple(slice(None, None, step) for step in steps)]
    if rank and draw(st.booleans()):
        axis = draw(st.integers(0, rank - 1))
        x = x[(slice(None),) * axis + (slice(0, 1),)] if x.shape[axis] else x
        wide = list(x.shape)
        wide[axis] = 0 if wide[axis] == 0 else draw(st.integers(1, 9))
        x = np.broadcast_to(x, wide)
    return x
