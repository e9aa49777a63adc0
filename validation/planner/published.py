"""Reads runs.csv: one published measurement a row, as a case (docs/planner-cases.md) and what was
measured. Models' shapes are in run_models.json; both hold facts, typed or derived from the source
that the row names. An empty cell was not published."""

import csv
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


def number(text):
    if text == "":
        return None
    value = float(text)
    return int(value) if value == int(value) else value


def flag(text):
    return None if text == "" else text == "1"


def model_of(row, models):
    model = dict(models[row["model"]], sequence_length=number(row["sequence"]))
    if row["layers"]:
        model["layers"] = number(row["layers"])
    if row["capacity_factor"]:
        model["experts"] = dict(model["experts"], capacity_factor=number(row["capacity_factor"]),
                                balanced=None)
    return model


def cluster_of(row):
    rack = row["gpu"].endswith("nvl72")
    return {"gpu": row["gpu"], "gpus": number(row["gpus"]), "gpus_per_node": 4 if rack else 8,
            "nvlink_domain": 72 if rack else 8,
            "network": {"kind": row["network"], "rails": 8,
                        "gb_per_s_per_gpu": number(row["network_gb_per_s"])},
            "memory_gb_per_s": number(row["memory_gb_per_s"]),
            "power_limit_w": number(row["power_w"])}


def layout_of(row):
    names = ["tensor", "pipeline", "virtual_pipeline", "context", "expert", "expert_tensor",
             "zero_stage", "shard_group"]
    layout = {name: number(row[name]) for name in names}
    if layout["tensor"] is not None:
        layout["sequence_parallel"] = layout["tensor"] > 1
    return layout


def entry_of(row, models):
    case = {"case": row["id"], "model": model_of(row, models), "cluster": cluster_of(row),
            "layout": layout_of(row),
            "batch": {"global": number(row["global_batch"]), "micro": number(row["micro_batch"])},
            "recompute": {"kind": row["recompute"]} if row["recompute"] else None,
            "precision": row["precision"],
            "software": {"framework": row["framework"] or None, "release": row["release"] or None,
                         "flash_attention": True, "compile": flag(row["compiled"]),
                         "overlap": {"tensor": flag(row["overlap_tensor"])}}}
    if row["out_of_memory"]:
        return {"case": case, "measured": {"out_of_memory": True}, "use": row["use"]}
    measured = {}
    rate = number(row["tokens_per_second_per_gpu"])
    if row["step_seconds"]:
        measured["step_seconds"] = float(row["step_seconds"])
    elif case["batch"]["global"]:
        tokens = case["batch"]["global"] * case["model"]["sequence_length"]
        measured["step_seconds"] = tokens / rate / case["cluster"]["gpus"]
    else:
        measured["tokens_per_second_per_gpu"] = rate
    if row["reserved_gib"]:
        measured["peak_memory_bytes"] = float(row["reserved_gib"]) * 2**30
        measured["memory_kind"] = "reserved"
    return {"case": case, "measured": measured, "use": row["use"]}


def published_runs():
    models = json.loads((HERE / "run_models.json").read_text(encoding="utf-8"))
    with open(HERE / "runs.csv", newline="", encoding="utf-8") as file:
        return [entry_of(row, models) for row in csv.DictReader(file)]
