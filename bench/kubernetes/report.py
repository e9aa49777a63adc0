"""Summaries of the benchmark of pod schedulers: medians, ratios, goals, and their table."""

import statistics

# Column of the table, figure of the summary, format.
BACKLOG_COLUMNS = (
    ("pods/s", "pods_per_s", "{:,.0f}"), ("of ceiling", "of_ceiling", "{:.2f}"),
    ("x tuned", "of_tuned", "{:.2f}"), ("CPU ms/pod", "cpu_ms_per_pod", "{:.3f}"),
    ("start CPU s", "start_cpu_s", "{:.2f}"), ("to 1st bind s", "first_bind_s", "{:.2f}"),
    ("server ms/pod", "server_cpu_ms_per_pod", "{:.2f}"))
ARRIVAL_COLUMNS = (
    ("p50 ms", "latency_ms_p50", "{:,.1f}"), ("p99 ms", "latency_ms_p99", "{:,.1f}"),
    ("max ms", "latency_ms_max", "{:,.1f}"), ("p99 of tuned", "latency_p99_of_tuned", "{:.2f}"),
    ("CPU ms/pod", "cpu_ms_per_pod", "{:.3f}"), ("raw binds/s", "pods_per_s", "{:,.0f}"),
    ("server ms/pod", "server_cpu_ms_per_pod", "{:.2f}"))


def with_ratios(samples):
    """The samples with their ratios to the others of the same round. A ceiling is measured before
    each round and after the last one; a round's ceiling is the mean of the two around it."""
    ceilings = {each["round"]: each["pods_per_s"] for each in samples
                if each["scheduler"] == "ceiling"}
    tuned = {each["round"]: each for each in samples if each["scheduler"] == "tuned"}
    result = []
    for each in samples:
        each, number = dict(each), each["round"]
        if each["scheduler"] != "ceiling":
            around = [ceilings[i] for i in (number, number + 1) if i in ceilings]
            if around and "pods_per_s" in each:
                each["of_ceiling"] = each["pods_per_s"] / statistics.mean(around)
            if number in tuned:
                add_ratios_to_tuned(each, tuned[number])
        result.append(each)
    return result


def add_ratios_to_tuned(sample, tuned):
    if "pods_per_s" in sample:
        sample["of_tuned"] = sample["pods_per_s"] / tuned["pods_per_s"]
    if "latency_ms_p99" in sample:
        sample["latency_p99_of_tuned"] = sample["latency_ms_p99"] / tuned["latency_ms_p99"]


def summarise(samples):
    """For each scheduler the number of runs and the median of each figure."""
    summary = {}
    for each in with_ratios(samples):
        summary.setdefault(each["scheduler"], []).append(each)
    # The ceiling first: the others are compared with it.
    order = sorted(summary.items(), key=lambda entry: entry[0] != "ceiling")
    return {name: {"runs": len(runs),
                   **{figure: statistics.median(run[figure] for run in runs if figure in run)
                      for figure in runs[0] if figure not in ("scheduler", "round")}}
            for name, runs in order}


def judge(goals, summary):
    """What the goals of Longhaul are and whether its medians reach them."""
    figures = summary.get("longhaul", {})
    result = []
    for goal in goals:
        value = figures.get(goal.figure)
        result.append({"goal": goal.text, "figure": goal.figure, "limit": goal.limit,
                       "value": value,
                       "reached": None if value is None else goal.is_reached(value)})
    return result


def case_lines(case, titles, result):
    """The table of a case and its goals, as lines of text."""
    summary = result["summary"]
    columns = ARRIVAL_COLUMNS if case.arrivals_per_s else BACKLOG_COLUMNS
    lines = [f"{case.name}: {case.title()}",
             f"  {'median of the runs':20}{'runs':>5}" +
             "".join(f"{title:>15}" for title, _, _ in columns)]
    for name, figures in summary.items():
        cells = [form.format(figures[figure]) if figure in figures else "-"
                 for _, figure, form in columns]
        lines.append(f"  {titles[name]:20}{figures['runs']:5}" +
                     "".join(f"{cell:>15}" for cell in cells))
    words = {True: "reached", False: "not reached", None: "not measured"}
    for each in result["goals"]:
        value = "" if each["value"] is None else f"{each['value']:.3g}, "
        lines.append(f"  goal of longhaul, {each['goal']}: {value}{words[each['reached']]}")
    return lines
