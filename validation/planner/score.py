#!/usr/bin/env python3
"""Scores the planner against published runs: signed errors by row, source and kind.

  score.py [--program PROGRAM] [--data FOLDER] [--rows] [--write | --check] [--json FILE]

PROGRAM answers cases on its standard input, a line each (default: build/release's answer_cases;
"longhaul plan --case -" does too). FOLDER holds cases_tuning.jsonl (default: shared/data/planner
beside the project or beside its parent); without it only runs.csv is scored. Rows of runs.csv that
are marked "hold" have no part in any constant.

--rows    prints every row;
--write   writes errors.csv beside this script: our figure and its signed error for every row, by
          case and source, without the published figure itself; and the table in README.md;
--check   compares with errors.csv (2 points a row for time, 0.2 for memory) and holds the memory
          limits below; exits with 1 if any is broken;
--set     tuning, fit or hold: only these;
--json    writes rows with both figures, for fitting outside the project (leave a source out there).
"""

import argparse
import csv
import json
import math
import pathlib
import statistics
import subprocess
import sys

from published import published_runs

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TABLE = HERE / "errors.csv"
# Of peak allocated memory: mean and largest absolute error.
MOST_MEAN, MOST_ROW = 0.01, 0.03
TOLERANCE = {"time": 0.02, "memory": 0.002}


def find_data(given):
    for folder in [given] if given else [ROOT.parent / "shared/data/planner",
                                         ROOT.parent.parent / "shared/data/planner"]:
        if (pathlib.Path(folder) / "cases_tuning.jsonl").exists():
            return pathlib.Path(folder) / "cases_tuning.jsonl"
    return None


def answers_to(cases, program):
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    result = subprocess.run(program, input=lines, capture_output=True, text=True, check=True,
                            timeout=280)
    found = [json.loads(line) for line in result.stdout.splitlines()]
    if len(found) != len(cases):
        raise SystemExit(f"{len(cases)} cases, but {len(found)} answers: {result.stderr[-500:]}")
    return found


def kind_of(case):
    layout, model = case["layout"], case["model"]
    if model.get("experts"):
        return "experts"
    if (layout["context"] or 1) > 1 or model["sequence_length"] >= 32768:
        return "long context"
    return "sharded data" if layout["zero_stage"] == 3 else "dense"


def figures_of(measured):
    """(figure, published, key of the answer, sort) for what a case has measured."""
    if "step_seconds" in measured:
        yield "step time", measured["step_seconds"], "step_seconds", "time"
    if "tokens_per_second_per_gpu" in measured:
        yield "tokens/s", measured["tokens_per_second_per_gpu"], "tokens_per_second_per_gpu", "time"
    if "peak_memory_bytes" in measured:
        kind = measured["memory_kind"]
        key = {"allocated": "peak_memory_bytes", "reserved": "peak_reserved_bytes",
               "device": "device_memory_bytes"}[kind]
        yield kind + " memory", measured["peak_memory_bytes"], key, "memory"


def rows_of(cases, answers):
    rows = []
    for entry, answer in zip(cases, answers):
        case, measured = entry["case"], entry["measured"]
        base = {"case": case["case"], "source": case["case"].split("-")[0], "kind": kind_of(case),
                "use": entry.get("use", "tuning")}
        fits = answer.get("fits", False)
        if measured.get("out_of_memory"):
            rows.append(base | {"figure": "out of memory", "sort": "fits", "published": 0,
                                "ours": int(fits), "error": float(fits)})
            continue
        for figure, published, key, sort in figures_of(measured):
            ours = answer.get(key, 2 * published)  # no answer counts as 100 %
            rows.append(base | {"figure": figure, "sort": sort, "published": published,
                                "ours": ours, "error": ours / published - 1})
        if not fits:
            rows.append(base | {"figure": "fits", "sort": "fits", "published": 1, "ours": 0,
                                "error": -1.0})
    return rows


def summary(errors):
    size = sorted(abs(error) for error in errors)
    return {"rows": len(size), "mean": statistics.fmean(size), "median": statistics.median(size),
            "p95": size[math.ceil(0.95 * len(size)) - 1], "max": size[-1],
            "bias": statistics.fmean(errors)}


def summaries(rows):
    """(use and what, source or kind, summary) in a fixed order."""
    for use in ["tuning", "fit", "hold"]:
        for by in ["source", "kind"]:
            groups = {}
            for row in rows:
                if row["sort"] != "fits" and row["use"] == use:
                    figure = "step time" if row["sort"] == "time" else row["figure"]
                    groups.setdefault((figure, row[by]), []).append(row["error"])
            for (figure, name), errors in sorted(groups.items()):
                yield f"{use}: {figure}", name, summary(errors)


def job_of(entry):
    """What two rows share if they are one job in different layouts."""
    case = entry["case"]
    return json.dumps([{k: v for k, v in case["model"].items() if k != "name"}, case["cluster"],
                       case["batch"]["global"], case["precision"], case["software"]],
                      sort_keys=True)


def ranks(cases, answers):
    """For each job with several layouts: regret of our first choice, rank of the best measured."""
    groups = {}
    for entry, answer in zip(cases, answers):
        if "step_seconds" in entry["measured"] and "step_seconds" in answer:
            pair = (answer["step_seconds"], entry["measured"]["step_seconds"])
            groups.setdefault((entry["case"]["case"].split("-")[0], job_of(entry)), []).append(pair)
    for (source, _), pairs in sorted(groups.items()):
        if len(pairs) < 2:
            continue
        ordered = sorted(pairs)
        best = min(measured for _, measured in pairs)
        position = [measured for _, measured in ordered].index(best) + 1
        agree = sum((a[0] - b[0]) * (a[1] - b[1]) > 0 for i, a in enumerate(pairs)
                    for b in pairs[:i])
        total = len(pairs) * (len(pairs) - 1) // 2
        yield source, len(pairs), ordered[0][1] / best - 1, position, 2 * agree / total - 1


def print_tables(rows, cases, answers, show_rows):
    if show_rows:
        print(f"{'case':<14}{'kind':<14}{'figure':<18}{'published':>12}{'ours':>12}{'error':>9}")
        for row in rows:
            scale = 2**-30 if row["sort"] == "memory" else 1
            print(f"{row['case']:<14}{row['kind']:<14}{row['figure']:<18}"
                  f"{row['published'] * scale:>12.4g}{row['ours'] * scale:>12.4g}"
                  f"{100 * row['error']:>+8.2f}%")
        print()
    print(f"{'figure':<26}{'of':<14}{'rows':>5}{'mean':>8}{'median':>8}{'p95':>8}{'max':>8}"
          f"{'bias':>8}")
    for figure, name, s in summaries(rows):
        print(f"{figure:<26}{name:<14}{s['rows']:>5}" + "".join(
            f"{100 * s[key]:>7.2f}%" for key in ["mean", "median", "p95", "max"])
            + f"{100 * s['bias']:>+7.2f}%")
    print(f"\n{'layouts of one job':<20}{'runs':>5}{'regret':>9}{'best at':>9}{'tau':>7}")
    for source, runs, regret, position, tau in ranks(cases, answers):
        print(f"{source:<20}{runs:>5}{100 * regret:>8.2f}%{position:>9}{tau:>+7.2f}")
    print()
    for use in ["tuning", "fit", "hold"]:
        inside = [answer["step_seconds_low"] <= entry["measured"]["step_seconds"]
                  <= answer["step_seconds_high"] for entry, answer in zip(cases, answers)
                  if "step_seconds" in entry["measured"] and "step_seconds" in answer
                  and entry.get("use", "tuning") == use]
        print(f"{use}: step times inside their band: {sum(inside)} of {len(inside)}")
    wrong = [row for row in rows if row["sort"] == "fits" and row["error"] != 0]
    print(f"memory called wrongly: {len(wrong)}")
    for row in wrong:
        print(f"  {row['case']}: " + ("it ran" if row["figure"] == "fits" else "it ran out"))


def write_table(rows):
    with open(TABLE, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["case", "source", "use", "kind", "figure", "ours", "signed_error_percent"])
        for row in rows:
            writer.writerow([row["case"], row["source"], row["use"], row["kind"], row["figure"],
                             f"{row['ours']:.6g}", f"{100 * row['error']:+.2f}"])


def score_lines(rows):
    """The table of README.md."""
    yield "| figure | of | rows | mean | median | 95th | largest | bias |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for figure, name, s in summaries(rows):
        cells = [f"{100 * s[key]:.2f} %" for key in ["mean", "median", "p95", "max"]]
        yield " | ".join([f"| {figure}", name, str(s["rows"]), *cells,
                          f"{100 * s['bias']:+.2f} % |"])


def write_scores(rows):
    page = HERE / "README.md"
    text = page.read_text(encoding="utf-8")
    head, rest = text.split("<!-- scores -->\n")
    tail = rest[rest.index("<!-- end of scores -->"):]
    table = "\n".join(score_lines(rows))
    page.write_text(f"{head}<!-- scores -->\n{table}\n{tail}", encoding="utf-8")


def broken(rows, uses):
    """What --check finds, a line each; `uses` are the sets that were scored."""
    with open(TABLE, newline="", encoding="utf-8") as file:
        known = {(row["case"], row["figure"]): float(row["signed_error_percent"]) / 100
                 for row in csv.DictReader(file) if row["use"] in uses}
    for row in rows:
        key = (row["case"], row["figure"])
        if key not in known:
            yield f"{key} is not in {TABLE.name}: score.py --write"
        elif abs(known[key] - row["error"]) > TOLERANCE.get(row["sort"], 0):
            yield f"{key}: error {row['error']:+.4f}, the table has {known[key]:+.4f}"
    for key in sorted(known.keys() - {(row["case"], row["figure"]) for row in rows}):
        yield f"{key} of {TABLE.name} is not scored any more"
    for row in rows:
        if row["figure"] == "out of memory" and row["error"] != 0:
            yield f"{row['case']} ran out of memory, but is said to fit"
    peaks = [row["error"] for row in rows if row["figure"] == "allocated memory"]
    if peaks and (summary(peaks)["mean"] > MOST_MEAN or summary(peaks)["max"] > MOST_ROW):
        yield f"peak allocated memory: {summary(peaks)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", nargs="+",
                        default=[str(ROOT / "build/release/validation/answer_cases")])
    parser.add_argument("--data")
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--set", choices=["tuning", "fit", "hold"])
    parser.add_argument("--json")
    options = parser.parse_args()
    path = find_data(options.data)
    if path is None and options.write:
        raise SystemExit("--write needs cases_tuning.jsonl: --data FOLDER")
    cases = published_runs()
    if path is None:
        print("no cases_tuning.jsonl: its rows are not scored")
    else:
        cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] + cases
    if options.set:
        cases = [entry for entry in cases if entry.get("use", "tuning") == options.set]
    answers = answers_to([entry["case"] for entry in cases], options.program)
    rows = rows_of(cases, answers)
    print_tables(rows, cases, answers, options.rows)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows), encoding="utf-8")
    if options.write:
        write_table(rows)
        write_scores(rows)
    uses = {entry.get("use", "tuning") for entry in cases}
    findings = list(broken(rows, uses)) if options.check else []
    for finding in findings:
        print("broken:", finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
