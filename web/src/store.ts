// The state of the page. transport.ts writes it, the panels read it.
import {batch, computed, signal} from "@preact/signals";

import type {Frozen} from "./frozen";
import {isOver, type RunEntry, type RunView} from "./protocol";

export type Connection = "loading" | "live" | "stale" | "closed" | "failed";

export const STALE_AFTER_MS = 15_000;

export type View = "cluster" | "run" | "fault" | "plan";

// The data of a report, which does not change; null: the page is live.
export const frozen = signal<Frozen | null>(null);
export const shown = signal<View>("run");
export const runs = signal<RunEntry[] | null>(null);
export const runId = signal<string | null>(null);
export const view = signal<RunView | null>(null);
// Why the page cannot be used at all: it has no session.
export const closedReason = signal<string | null>(null);
// Why the last request failed; null: it did not.
export const failure = signal<string | null>(null);
// When the server was last heard, by performance.now().
export const heardAt = signal(0);
// The server's clock minus the browser's.
export const clockDifferenceMs = signal(0);
// Moves on each second.
export const ticker = signal(0);
// The part of the time that the charts show, in ms of the server's clock; null: all.
export const range = signal<{from: number; to: number} | null>(null);

// The run view and the fault view follow a run.
export function isOfRun(view: View): boolean {
  return view === "run" || view === "fault";
}

export const over = computed(() => view.value !== null && isOver(view.value.run.state));

export const ageMs = computed(() => {
  ticker.value;
  return heardAt.value === 0 ? 0 : Math.max(0, performance.now() - heardAt.value);
});

export const connection = computed<Connection>(() => {
  if (closedReason.value !== null) return "closed";
  if (frozen.value !== null) return "live";
  if (isOfRun(shown.value) && over.value) return "live";
  if (failure.value !== null) return "failed";
  if (heardAt.value === 0) return "loading";
  // Nothing in the plan view changes by itself.
  return ageMs.value > STALE_AFTER_MS && shown.value !== "plan" ? "stale" : "live";
});

// The end of the time that the charts can show.
export const lastMs = computed(() => {
  ticker.value;
  const run = view.value?.run;
  return run !== undefined && isOver(run.state) ? run.ended_at_ms : serverNow();
});

// The server was heard; `nowMs` is its clock, if it has sent it.
export function heard(nowMs?: number) {
  batch(() => {
    if (nowMs !== undefined) clockDifferenceMs.value = nowMs - Date.now();
    heardAt.value = performance.now();
    failure.value = null;
  });
}

// In a report, when its last event happened.
export function serverNow(): number {
  if (frozen.value !== null) return frozen.value.view.now_ms;
  return Date.now() + clockDifferenceMs.value;
}

// The page shows a report from now on.
export function freeze(report: Frozen) {
  batch(() => {
    frozen.value = report;
    runs.value = [report.view.run];
    runId.value = report.view.run.id;
    view.value = report.view;
    heardAt.value = performance.now();
  });
}
