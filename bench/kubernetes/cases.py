"""The cases of the benchmark of pod schedulers, their goals, and the schedulers to compare."""

import dataclasses

# Feature gate and API of Kubernetes' own gangs; both are off by default in 1.37.
GANG_GATE = "--feature-gates=GenericWorkload=true"
GANG_API = "scheduling.k8s.io/v1beta1"
# A scheduler of gangs by label finds their size in an object of this API.
COSCHEDULING_API = "scheduling.x-k8s.io/v1alpha1"

GPUS_ON_A_NODE = 8


@dataclasses.dataclass(frozen=True)
class Goal:
    """A limit for Longhaul's median of a figure of the summary."""
    figure: str
    at_least: bool
    limit: float
    text: str

    def is_reached(self, value):
        return value >= self.limit if self.at_least else value <= self.limit


def at_least(figure, limit, text):
    return Goal(figure, True, limit, text)


def at_most(figure, limit, text):
    return Goal(figure, False, limit, text)


CPU_GOAL = at_most("cpu_ms_per_pod", 0.15, "at most 0.15 ms of CPU for a pod")


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    nodes: int
    pods: int
    goals: tuple
    gang_size: int = 0         # 0: no gangs
    arrivals_per_s: int = 0    # 0: the pods exist before the scheduler starts
    warming_binds: int = 4000  # the server's first thousands of binds are slower
    ceiling_runs: int = 3

    def title(self):
        text = f"{self.nodes:,} nodes with {GPUS_ON_A_NODE} GPUs, {self.pods:,} one-GPU pods"
        if self.gang_size:
            text += f" in {-(-self.pods // self.gang_size):,} gangs of {self.gang_size}"
        if self.arrivals_per_s:
            return text + f" that arrive at {self.arrivals_per_s} a second"
        return text + " that exist before the scheduler starts"

    def smaller(self):
        """The same with so few nodes and pods that it shows only that everything works."""
        rate = 20 if self.arrivals_per_s else 0
        return dataclasses.replace(self, nodes=20, pods=rate or 40, arrivals_per_s=rate,
                                   warming_binds=100, ceiling_runs=1)


CASES = {case.name: case for case in (
    Case("backlog", 500, 1000, (
        at_least("of_ceiling", 0.8, "at least 0.8 of the ceiling"),
        at_least("of_tuned", 2.5, "at least 2.5 times the tuned stock scheduler"), CPU_GOAL)),
    Case("large", 5000, 5000, (
        at_least("of_ceiling", 0.7, "at least 0.7 of the ceiling"),
        at_least("of_tuned", 4, "at least 4 times the tuned stock scheduler"), CPU_GOAL),
        ceiling_runs=1),
    Case("gangs", 500, 1000, (
        at_least("of_tuned", 5, "at least 5 times the tuned stock scheduler's gangs"), CPU_GOAL),
        gang_size=8),
    Case("arrivals", 500, 2000, (
        at_most("latency_ms_p50", 8, "created to bound at most 8 ms (p50)"),
        at_most("latency_ms_p99", 60, "created to bound at most 60 ms (p99)"),
        at_most("latency_p99_of_tuned", 1 / 3,
                "p99 at most a third of the tuned stock scheduler's")),
         arrivals_per_s=200),
)}


@dataclasses.dataclass(frozen=True)
class Scheduler:
    """A program that binds the pods that name it. `words` starts it in the foreground, and SIGTERM
    ends it."""
    name: str
    title: str
    words: tuple
    scheduler_name: str  # spec.schedulerName of its pods
    gangs: str           # the kind of gangs that it supports, for kubernetes_load
    once: bool = False   # one run of each case, because it is slow


def stock(binaries, kubeconfig, case, tuned):
    """The stock scheduler, with its default flags or without its limit of requests."""
    words = [str(binaries / "kube-scheduler"), f"--kubeconfig={kubeconfig}",
             # There is one instance, and no other program asks for its health or metrics.
             "--leader-elect=false", "--authentication-skip-lookup", "--secure-port=0"]
    if tuned:
        words += ["--kube-api-qps=5000", "--kube-api-burst=5000"]
    if case.gang_size:
        words.append(GANG_GATE)
    name = "tuned" if tuned else "default"
    return Scheduler(name, f"stock {name}", tuple(words), "default-scheduler", "kubernetes",
                     once=not tuned)


def longhaul(program, arguments, kubeconfig):
    """Longhaul's scheduler."""
    words = (str(program), "kube", "schedule", "--kubeconfig", str(kubeconfig),
             "--no-leader-election", *arguments)
    return Scheduler("longhaul", "longhaul", words, "longhaul", "coscheduling")
