"""What the workers of fault_worker.py recorded, and whether each sample was consumed exactly once.

Independent of Longhaul: nothing here reads what the controller or an agent has written. Of each
step only the last attempt that recorded it counts, because a restart repeats the steps after the
restored one. That attempt must have the record of each of its workers, and the samples of all
steps must be each sample of the data set once in each epoch.
"""
import collections
import os
import pathlib


def read(folder):
    """The records (attempt, rank, step, ranks, samples) and the final (step, weights) of the last
    attempt by rank. A line that a kill cut short has no semicolon and is left out."""
    records, ends = [], {}
    for path in pathlib.Path(folder).iterdir():
        attempt, rank, _ = map(int, path.name.split("."))
        for line in path.read_text().split("\n"):
            if not line.endswith(";"):
                continue
            words = line[:-1].split()
            if words[0] == "end":
                ends[attempt, rank] = (int(words[1]), words[2])
            else:
                step, ranks, *samples = map(int, words)
                records.append((attempt, rank, step, ranks, samples))
    last = max((attempt for attempt, _ in ends), default=0)
    return records, {rank: end for (attempt, rank), end in ends.items() if attempt == last}


class History:
    """The steps that count: for each the number of workers and the samples by rank."""

    def __init__(self, records):
        last = {}
        for attempt, _, step, _, _ in records:
            last[step] = max(attempt, last.get(step, attempt))
        self.attempts = len({attempt for attempt, *_ in records})
        self.done_again = len({(attempt, step) for attempt, _, step, _, _ in records}) - len(last)
        self.ranks, self.samples = {}, {}
        for attempt, rank, step, ranks, samples in records:
            if attempt == last[step]:
                self.ranks.setdefault(step, ranks)
                self.samples.setdefault(step, {})[rank] = samples

    def sizes(self):
        """The numbers of workers in the order of the steps, without repetitions."""
        found = [self.ranks[step] for step in sorted(self.ranks)]
        return [size for i, size in enumerate(found) if i == 0 or found[i - 1] != size]

    def incomplete(self):
        """The steps of which the record of a worker is missing."""
        return [step for step, samples in sorted(self.samples.items())
                if sorted(samples) != list(range(self.ranks[step]))]


def check(history, steps, samples, batch):
    """Counts lost and repeated samples over `steps` steps, which must be whole epochs of `samples`
    samples each. A step without a record loses all of its samples."""
    if steps * batch % samples != 0:
        raise ValueError(f"{steps} steps of {batch} samples are no whole epochs of {samples}")
    epochs = [collections.Counter() for _ in range(steps * batch // samples)]
    stray = 0  # of steps beyond the last one, and samples that do not exist
    for step, by_rank in history.samples.items():
        consumed = [sample for rank in sorted(by_rank) for sample in by_rank[rank]]
        for place, sample in enumerate(consumed):
            epoch = ((step - 1) * batch + min(place, batch - 1)) // samples
            if epoch < len(epochs) and 0 <= sample < samples:
                epochs[epoch][sample] += 1
            else:
                stray += 1
    return {"samples": steps * batch, "epochs": len(epochs),
            "lost": sum(samples - len(epoch) for epoch in epochs),
            "repeated": stray + sum(count - 1 for epoch in epochs for count in epoch.values()),
            "incomplete_steps": len(history.incomplete())}


class Progress:
    """Follows the newest attempt's records while workers write them."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.highest = 0

    def newest(self):
        """Rank and pid of the newest attempt's workers, by path."""
        try:
            names = [tuple(map(int, name.split("."))) for name in os.listdir(self.folder)]
        except FileNotFoundError:
            return {}
        last = max((name[0] for name in names), default=0)
        return {self.folder / ".".join(map(str, name)): name[1:]
                for name in names if name[0] == last}

    def step(self):
        """The highest step recorded so far."""
        for path in self.newest():
            with open(path, "rb") as file:
                file.seek(max(0, os.path.getsize(path) - 4096))
                lines = [line for line in file.read().split(b"\n")[:-1] if line.endswith(b";")]
            if lines and not lines[-1].startswith(b"end") and len(lines) > 1:
                self.highest = max(self.highest, int(lines[-1].split()[0]))
        return self.highest
