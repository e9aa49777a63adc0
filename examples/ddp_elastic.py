"""The training of ddp.py with workers that stay alive when another worker fails.

    longhaul run --nodes 2 --procs 2 -- python3 examples/ddp_elastic.py --steps 1000

The model, the optimizer and the progress are made once in each process. `train` is called for each
group. The final weights are the same bits as those of a run without failures.
"""

import os
import time

import torch
import torch.distributed as dist
from ddp import fingerprint, load, make_network, parse_arguments, samples, save
from longhaul import elastic
from torch.nn.parallel import DistributedDataParallel


def main():
    arguments = parse_arguments()
    teacher = make_network(16, 32, arguments.seed + 1_000_000)
    student = make_network(16, arguments.hidden, arguments.seed)
    optimizer = torch.optim.SGD(student.parameters(), lr=arguments.learning_rate, momentum=0.9)
    progress = elastic.Progress(load(arguments.checkpoint, student, optimizer))

    def train(group):
        group.synchronize(progress, student, optimizer)
        model = DistributedDataParallel(student, find_unused_parameters=True)
        print(f"rank {group.rank} of {group.world_size} is process {os.getpid()} from step "
              f"{progress.step + 1}", flush=True)
        for step in range(progress.step + 1, arguments.steps + 1):
            began = time.monotonic()
            inputs, targets = samples(arguments, teacher, step, group.rank)
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            mean_loss = loss.detach() / group.world_size
            dist.all_reduce(mean_loss)
            # No collective between these two: the state and its number of steps belong together.
            optimizer.step()
            progress.step = step
            time.sleep(max(0.0, arguments.step_time - (time.monotonic() - began)))
            if group.rank == 0:
                print(f"step {step} loss {mean_loss.item():.6f}", flush=True)
                due = step % arguments.checkpoint_every == 0 or step == arguments.steps
                if arguments.checkpoint and due:
                    save(arguments.checkpoint, student, optimizer, step)
        print(f"rank {group.rank} is done after step {arguments.steps}, weights "
              f"{fingerprint(student)}", flush=True)

    elastic.run(train)


if __name__ == "__main__":
    main()
