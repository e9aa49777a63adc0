// What a run has cost and will cost: the time for which it holds accelerators, or ranks where the
// scheduler assigns no devices.
import type {RunView} from "./protocol";

export interface Cost {
  unit: "accelerator-hours" | "rank-hours";
  soFar: number;
  toCome: number | null;  // null: the end is not known
}

// A job that waits in its queue holds nothing.
export function costOf({run, ledger}: RunView): Cost {
  const held = ledger.categories
    .filter(({category}) => category !== "queue")
    .reduce((sum, {rank_seconds}) => sum + rank_seconds, 0);
  const hours = (rankSeconds: number) => rankSeconds * (run.accelerators_per_rank ?? 1) / 3600;
  return {
    unit: run.accelerators_per_rank === null ? "rank-hours" : "accelerator-hours",
    soFar: hours(held),
    toCome: run.eta_seconds < 0 || run.step === 0 ? null : hours(run.eta_seconds * run.ranks),
  };
}
