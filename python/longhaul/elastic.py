"""Workers that stay alive when another worker of their torch.distributed group fails.

    from longhaul import elastic

    model, optimizer, progress = ..., ..., elastic.Progress()

    def train(group):
        group.synchronize(progress, model, optimizer)
        ddp = DistributedDataParallel(model)
        for step in range(progress.step + 1, steps + 1):
            ...
            optimizer.step()
            progress.step = step

    elastic.run(train)

With `fully_shard` the function makes the model and the optimizer, and calls `group.snapshot()`
after each step. Under `longhaul run`, `run` calls the function again in each attempt in which this
process takes part. Without an agent it initialises torch.distributed and calls the function once.
docs/elastic-scripts.md states when a process is kept. PyTorch 2 or newer.
"""

import gc
import os
import sys
import time
import traceback
import weakref
from typing import Any, Callable, Dict, List, Optional

from . import _elastic_sharded, _elastic_whole
from . import close as _close_worker_api
from . import due as _due
from . import restore as _restore
from . import snapshot as _snapshot
from ._elastic_agent import Agent
from ._elastic_groups import Groups, await_rest

# A lost worker is reported within milliseconds, and a lost node within some seconds. After this
# time without such a report the error is the script's own.
_REPORT_LIMIT_S = 5.0


class Progress:
    """The number of optimizer steps that the state contains. Set `step` after each one.

    `step` at the start is the number of steps of the state that the script itself has made.
    """

    def __init__(self, step: int = 0):
        self.step = step
        self.first = step


class Group:
    """The torch.distributed group of one attempt."""

    def __init__(self, rank: int, world_size: int, attempt: int, past: "_Past"):
        self.rank = rank
        self.world_size = world_size
        self.attempt = attempt
        self._past = past
        self._progress = Progress()
        self._state: Dict[str, Any] = {}  # sharded objects by name, once they are synchronized
        self._boxes = 0
        self._replicated = False

    def synchronize(self, progress: Progress, *objects: Any) -> None:
        """Gives all ranks the newest state that the ranks still have, or that a snapshot has.

        `objects` are modules, optimizers and others with `state_dict` and `load_state_dict`, in the
        same order on every rank. Tensors are sent bit for bit. A collective: call it before
        DistributedDataParallel wraps the model, and after `fully_shard`.

        If each rank holds all of the state, it is that of the rank with the most steps (of several,
        the lowest). If it is sharded, docs/elastic-scripts.md states which one it is. Raises
        ValueError for a model that is sharded in another way than by `fully_shard`.
        """
        import torch
        import torch.distributed as dist

        device = _device(torch, dist)
        replicated = _elastic_sharded.check(torch, objects, self.world_size)
        if replicated is None:
            progress.step = _elastic_whole.synchronize(torch, dist, progress.step, objects, device)
            return
        self._past.check_new(torch, objects)
        state = _elastic_sharded.named(torch, objects)
        boxes = _elastic_sharded.boxes_of(state, torch)
        carried = self._past.carried
        if carried is not None and carried.boxes != boxes:
            carried = None  # the shards are others now
        mine = torch.tensor([boxes, carried.step if carried else 0], dtype=torch.int64,
                            device=device)
        gathered = [torch.zeros_like(mine) for _ in range(self.world_size)]
        dist.all_gather(gathered, mine)
        all_boxes, held = ([int(each[i].item()) for each in gathered] for i in (0, 1))
        common = _elastic_sharded.common_step(held, all_boxes)
        if common is not None:
            _elastic_sharded.from_replicas(torch, dist, state, carried, common, held, all_boxes,
                                           device)
            progress.step = common
        else:
            saved = _restore(into=state)
            progress.step = saved.step if saved else progress.first
        self._past.carried = None
        self._progress, self._state = progress, state
        self._boxes, self._replicated = boxes, replicated

    def snapshot(self) -> None:
        """Takes a snapshot of the synchronized objects if one is due. A collective: call it after
        each step, when `progress.step` is set. Raises ValueError if they are not sharded."""
        if not self._state:
            raise ValueError("Group.snapshot is for objects that synchronize was given and that "
                             "are sharded; call longhaul.snapshot for others")
        if _due(self._progress.step):
            _snapshot(self._state, self._progress.step)

    def _end(self) -> None:
        """Keeps what the next attempt needs, without what is bound to the group."""
        state, self._state = self._state, {}
        if not state or not self._replicated or self._progress.step == 0:
            return
        try:
            self._past.carried = _elastic_sharded.carry(self._progress.step, self._boxes, state)
        except (RuntimeError, ValueError) as failure:
            print(f"longhaul: this rank's state of step {self._progress.step} cannot be kept: "
                  f"{failure}", file=sys.stderr, flush=True)


class _Past:
    """What a process has kept of its last attempt."""

    def __init__(self) -> None:
        self.carried: Optional[_elastic_sharded.Carried] = None
        self._modules: List[Any] = []  # weak references

    def check_new(self, torch: Any, objects: Any) -> None:
        modules = [each for each in objects if isinstance(each, torch.nn.Module)]
        if any(old() is each for old in self._modules for each in modules):
            raise ValueError("the model is the one of the attempt before, whose group has ended: "
                             "with fully_shard, make the model and the optimizer in the function "
                             "that longhaul.elastic.run calls")
        self._modules = [weakref.ref(each) for each in modules]


def run(train: Callable[[Group], Any], backend: Optional[str] = None) -> Any:
    """Calls `train(group)` with an initialised torch.distributed until it returns its result.

    A RuntimeError, which a failed collective raises, is raised to the caller if no other worker has
    failed within 5 s. Otherwise the process leaves its group, becomes a worker of the next attempt,
    and `train` is called again. Other exceptions are raised at once.
    `backend` is that of init_process_group: by default NCCL with CUDA, else Gloo. Objects that
    exist when this is called are excluded from garbage collection (gc.freeze).
    """
    process = _Process(train, backend)
    try:
        while True:
            # Groups.leave collects garbage: PyTorch's own objects would take most of that time.
            gc.freeze()
            try:
                return process.attempt()
            except RuntimeError as error:  # what PyTorch raises for a collective that fails
                if not process.leave(error):
                    raise
    finally:
        process.close()


class _Process:
    """A worker process in its attempts, one after the other."""

    def __init__(self, train: Callable[[Group], Any], backend: Optional[str]):
        self._train = train
        self._backend = backend
        self._groups = Groups()
        self._past = _Past()
        self._group: Optional[Group] = None
        self._agent = Agent.connect(self._groups.break_until_left)

    def attempt(self) -> Any:
        import torch
        import torch.distributed as dist

        # PyTorch names a group by how many groups its process has made. A survivor whose last
        # init_process_group failed has made more than a new process, and would look for the others
        # under another name.
        world = getattr(dist.distributed_c10d, "_world", None)
        if world is not None and not dist.is_initialized():
            world.group_count = 0
        with self._groups.recorded(dist):
            return self._form_and_train(torch, dist)

    def _form_and_train(self, torch: Any, dist: Any) -> Any:
        with self._groups.forming():
            dist.init_process_group(
                self._backend or ("nccl" if torch.cuda.is_available() else "gloo"))
        attempt = int(os.environ.get("LONGHAUL_ATTEMPT", "1"))
        self._group = Group(dist.get_rank(), dist.get_world_size(), attempt, self._past)
        result = self._train(self._group)
        if dist.is_initialized():
            await_rest()
            dist.destroy_process_group()
        return result

    def leave(self, error: RuntimeError) -> bool:
        """Leaves the groups and becomes a worker of the next attempt. Returns False if no other
        worker has failed."""
        if self._agent is None:
            return False
        report_limit = time.monotonic() + _REPORT_LIMIT_S
        text = "".join(traceback.format_exception_only(type(error), error)).strip()
        self._groups.break_all()
        if self._group is not None:
            self._group._end()
            self._group = None
        self._groups.leave(error)
        _close_worker_api()  # of this attempt: its memory is the next one's from now on
        self._agent.left()
        if not self._agent.leave_ordered(report_limit):
            return False
        environment = self._agent.next_attempt()
        print(f"longhaul: rank {os.environ['RANK']} continues as rank {environment['RANK']} of "
              f"{environment['WORLD_SIZE']} after: {text}", file=sys.stderr, flush=True)
        os.environ.update(environment)
        return True

    def close(self) -> None:
        if self._agent is not None:
            self._agent.close()


def _device(torch: Any, dist: Any) -> Any:
    if dist.get_backend() == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
