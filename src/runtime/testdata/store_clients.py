"""Two of these talk to a store: every operation of the client, then a Gloo group over it.

Takes its place from torchrun's environment.
"""
import concurrent.futures
import datetime
import os

import torch
import torch.distributed as dist

CLIENTS = 32

rank = int(os.environ["RANK"])
world = int(os.environ["WORLD_SIZE"])
host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])

store = dist.TCPStore(host, port, world, False, datetime.timedelta(seconds=60))

# Sets are seen by the other, and a get waits for them.
store.set(f"from-{rank}", f"hello from {rank}")
other = 1 - rank
assert store.get(f"from-{other}") == f"hello from {other}".encode()

# Numbers add up over both; wait ends when both have come.
store.add("sum", 10 + rank)
if store.add("arrived", 1) == world:
    store.set("all-here", "1")
store.wait(["all-here"], datetime.timedelta(seconds=60))
assert store.add("sum", 0) == 21

# One of the two wins a compare-and-set.
winner = store.compare_set("leader", "", str(rank)).decode()
assert winner in ("0", "1")
assert store.compare_set("leader", "nobody", "x").decode() == winner
assert store.compare_set("absent", "expected", "x") == b"expected"

# A wait that times out leaves a connection that still works.
try:
    store.wait(["never"], datetime.timedelta(milliseconds=50))
    raise AssertionError("a wait for a missing key must time out")
except RuntimeError:
    pass
store.set(f"late-{rank}", b"\x00binary\xff")
assert store.get(f"late-{other}") == b"\x00binary\xff"
assert store.num_keys() >= 6
store.set(f"gone-{rank}", "x")
assert store.delete_key(f"gone-{rank}") and not store.delete_key(f"gone-{rank}")

if hasattr(store, "multi_get"):
    store.multi_set([f"m-{rank}-a", f"m-{rank}-b"], ["1", "2"])
    assert store.multi_get([f"m-{rank}-a", f"m-{rank}-b"]) == [b"1", b"2"]
    store.append(f"m-{rank}-a", "3")
    assert store.get(f"m-{rank}-a") == b"13"
    if hasattr(store, "check"):
        assert store.check([f"m-{rank}-a"]) and not store.check(["never"])

if hasattr(store, "queue_push"):
    store.queue_push(f"q-{rank}", "first")
    store.queue_push(f"q-{rank}", "second")
    assert store.queue_len(f"q-{rank}") == 2 and store.check([f"q-{rank}"])
    assert store.queue_pop(f"q-{rank}") == b"first"
    store.queue_push(f"to-{other}", "letter")
    assert store.queue_pop(f"to-{rank}") == b"letter"  # waits for it

if hasattr(store, "list_keys"):
    store.set(f"listed-{rank}", "x")
    store.get(f"listed-{other}")
    assert {f"listed-{rank}", f"listed-{other}"} < set(store.list_keys())
    store.barrier("both", world, datetime.timedelta(seconds=60))
    store.barrier("both", world, datetime.timedelta(seconds=60))  # it stays open
    try:
        store.barrier(f"alone-{rank}", world, datetime.timedelta(milliseconds=50))
        raise AssertionError("a barrier that nobody else reaches must time out")
    except RuntimeError:
        pass

# The largest value that PyTorch's own server takes, and small reads after it.
large = bytes([rank]) * ((8 << 20) - 1)
store.set(f"large-{rank}", large)
assert store.get(f"large-{other}") == bytes([other]) * len(large)
assert store.get(f"from-{rank}") == f"hello from {rank}".encode()

# Many clients in a process, half of which wait until the others have come.
many = [dist.TCPStore(host, port, world, False, datetime.timedelta(seconds=60))
        for _ in range(CLIENTS)]
with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
    waits = [pool.submit(each.get, f"many-{rank}") for each in many[:CLIENTS // 2]]
    for each in many[CLIENTS // 2:]:
        each.add(f"count-{rank}", 1)
    many[-1].set(f"many-{rank}", "done")
    assert [each.result() for each in waits] == [b"done"] * len(waits)
assert store.add(f"count-{rank}", 0) == CLIENTS - CLIENTS // 2
del many

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
tensor = torch.full((1000,), float(rank + 1))
dist.all_reduce(tensor)
assert tensor.eq(3.0).all()
dist.barrier()
dist.destroy_process_group()
newer = ("multi_get", "check", "queue_push", "list_keys", "barrier")
print("every operation passed:", ", ".join(name for name in newer if hasattr(store, name)))
