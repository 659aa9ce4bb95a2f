"""What one of several processes finds: norms of gradients that are parted among them.

Run by test_torch_norms.py, each rank as `python over_ranks.py RANK RANKS STORE`; prints
JSON. Gradients are the same in every process, which then takes its part.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from halfulp import torch as ht


def gradients() -> list[Any]:
    """Of sizes that do not divide evenly, and of values whose squares span 2^60."""
    generator = torch.Generator().manual_seed(3)
    sizes = [(301, 7), (13,), (64, 65), (3, 5, 7), ()]
    return [
        torch.randn(size, generator=generator) * 2.0 ** (10 * i)
        for i, size in enumerate(sizes)
    ]


def model() -> Any:
    torch.manual_seed(5)
    layers = (torch.nn.Linear(37, 51), torch.nn.ReLU(), torch.nn.Linear(51, 11))
    return torch.nn.Sequential(*layers)


def backward(of: Any) -> None:
    x = torch.randn(29, 37, generator=torch.Generator().manual_seed(7))
    (of(x) ** 3).sum().backward()


def in_slices(rank: int, ranks: int, group: Any) -> list[float]:
    """A flat vector in slices, as ZeRO has it: our norms, and one in PyTorch's way."""
    flat = torch.cat([g.flatten() for g in gradients()])
    mine = flat.tensor_split(ranks)[rank]
    square = torch.linalg.vector_norm(mine) ** 2
    dist.all_reduce(square, group=group)
    found = [ht.get_total_norm(mine, order, group=group) for order in (2, 1, "inf")]
    return [*(norm.item() for norm in found), square.sqrt().item()]


def in_layers(rank: int, ranks: int, group: Any) -> list[float]:
    """Whole tensors here and there, as pipelines have it: some ranks have none."""
    mine = gradients()[rank :: min(2, ranks)] if rank < 2 else []
    return [ht.get_total_norm(mine, order, group=group).item() for order in (2, 1, "inf")]


def in_shards(mesh: Any) -> list[Any]:
    """FSDP2: the norms, the factor's work, and PyTorch's norm."""
    alone, sharded = model(), model()
    fully_shard(sharded[0], mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    backward(alone)
    backward(sharded)
    # The same gradients, whatever the order in which the ranks' were added.
    for one, other in zip(alone.parameters(), sharded.parameters(), strict=True):
        other.grad = distribute_tensor(one.grad, mesh, [Shard(0)])
    theirs = torch.nn.utils.get_total_norm([p.grad for p in sharded.parameters()])
    norm = ht.clip_grad_norm_(sharded.parameters(), 0.5)
    first = next(sharded.parameters()).grad.full_tensor()
    alone_norm = ht.clip_grad_norm_(alone.parameters(), 0.5)
    assert torch.equal(first, next(alone.parameters()).grad)
    assert alone_norm == norm
    return [norm.item(), theirs.full_tensor().item()]


def replicated(mesh: Any) -> list[float]:
    """Some gradients on a mesh of two dimensions, in ways that count each once."""
    ways = [[Shard(0), Replicate()], [Replicate(), Shard(0)], [Replicate(), Replicate()]]
    given = gradients()[:-1]
    parts = [distribute_tensor(g, mesh, ways[i % 3]) for i, g in enumerate(given)]
    assert all(isinstance(part, DTensor) for part in parts)
    whole = gradients()[-1]  # a plain tensor is the same everywhere
    return [ht.get_total_norm([*parts, whole], order).item() for order in (2, 1, "inf")]


def odd_ones(rank: int, group: Any) -> list[str]:
    """One rank has what the others have not: NaN, infinity, another dtype, nothing."""
    mine = {
        0: [torch.ones(2)],
        1: [torch.tensor([float("inf")])],
        2: [torch.tensor([float("nan")])],
        3: [torch.ones(1, dtype=torch.float64)],
    }
    found = []
    for order in (2, "inf"):
        for ranks in ((0,), (0, 1), (0, 1, 2), (0, 3), ()):
            given = mine[rank] if rank in ranks else []
            norm = ht.get_total_norm(given, order, group=group)
            found.append(f"{norm.item()} {norm.dtype}")
    return found


def main() -> None:
    rank, ranks, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=60),
    )
    found: dict[str, Any] = {"slices": {}, "layers": {}, "shards": {}}
    for n in range(1, ranks + 1):
        group = dist.new_group(range(n))
        if rank < n:
            mesh = DeviceMesh.from_group(group, "cpu")
            found["slices"][n] = in_slices(rank, n, group)
            found["layers"][n] = in_layers(rank, n, group)
            found["shards"][n] = in_shards(mesh)
    found["replicated"] = replicated(dist.init_device_mesh("cpu", (2, ranks // 2)))
    found["odd"] = odd_ones(rank, dist.group.WORLD)
    print(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
