// Follows the chosen run: a view of it, then the events after that view.
//
// Events of steps and snapshots change the view at once. Any other event has effects that only the
// server knows, so the page requests the view again without curves, at most once a second and at
// least every five.
// Where no stream can be opened, it requests the view every two seconds.
import {batch} from "@preact/signals";

import {placeOf} from "./address";
import {withSnapshot, withState, withStep} from "./events";
import {isOver, VIEW_VERSION, type RunEntry, type RunView} from "./protocol";
import {reasonOf, request} from "./request";
import * as store from "./store";

const REFRESH_MS = 5_000;
const SOONEST_REFRESH_MS = 1_000;
const POLL_MS = 2_000;
const SHOW_MS = 250;
const RUNS_MS = 10_000;
const SOON_RUNS_MS = 1_000;  // nothing is shown yet

let stream: EventSource | null = null;
let asOf = 0n;  // the last event that the page has
let draft: RunView | null = null;  // newer than what is shown
let showTimer: ReturnType<typeof setTimeout> | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;
let runsTimer: ReturnType<typeof setTimeout> | undefined;
let streamIsRefused = false;
let refreshedAt = 0;
let wanted = 0;  // counts the runs that were chosen: answers for an earlier one are dropped

function fail(error: unknown) {
  store.failure.value = reasonOf(error);
}

function heard() {
  store.heard();
}

// The view with all events so far. Many events in a short time make one picture.
function current(): RunView | null {
  return draft ?? store.view.value;
}

function showSoon(view: RunView) {
  draft = view;
  showTimer ??= setTimeout(() => {
    showTimer = undefined;
    if (draft !== null) store.view.value = draft;
    draft = null;
  }, SHOW_MS);
}

// A view without curves keeps the present ones. Events may have arrived while it was on its way:
// what they have changed is newer.
function merge(view: RunView, present: RunView | null): RunView {
  if (present === null || view.series !== undefined) return view;
  view.series = present.series;
  if (BigInt(view.as_of) >= asOf) return view;
  if (isOver(present.run.state) && !isOver(view.run.state)) return present;
  const {step, highest_step, attempt, loss, tokens_per_second, eta_seconds} = present.run;
  const run = {...view.run, step, highest_step, attempt, loss, tokens_per_second, eta_seconds};
  return {...view, run, snapshots: present.snapshots, loss_now: present.loss_now};
}

function take(view: RunView) {
  if (view.version !== VIEW_VERSION) return location.reload();
  const merged = merge(view, current());
  if (BigInt(view.as_of) > asOf && stream === null) asOf = BigInt(view.as_of);
  draft = null;
  store.view.value = merged;
  store.heard(view.now_ms);
}

// With curves only while no stream is open: its events would be missing in them, or be there twice.
async function refresh() {
  const id = store.runId.value;
  const round = wanted;
  if (id === null) return;
  refreshedAt = performance.now();
  const withSeries = stream === null;
  try {
    const path = `/v1/view/run/${encodeURIComponent(id)}${withSeries ? "" : "?series=false"}`;
    const view = await request<RunView>(path);
    if (round !== wanted || withSeries !== (stream === null)) return;
    take(view);
    if (isOver(view.run.state) && !withSeries) {
      closeStream();
      return void refresh();
    }
  } catch (error) {
    if (round === wanted) fail(error);
  }
  if (round === wanted) plan(stream === null ? POLL_MS : REFRESH_MS);
}

function plan(delayMs: number) {
  clearTimeout(timer);
  const round = wanted;
  if (store.over.value || store.closedReason.value !== null) return closeStream();
  timer = setTimeout(() => {
    if (round !== wanted) return;
    // After a failure the stream is opened again, unless the server has refused it.
    void (stream === null && !streamIsRefused ? restart() : refresh());
  }, delayMs);
}

function refreshSoon() {
  const since = performance.now() - refreshedAt;
  plan(Math.max(0, SOONEST_REFRESH_MS - since));
}

// Whether an event is later than all that the page has.
function isNew(event: MessageEvent<string>): boolean {
  heard();
  const id = BigInt(event.lastEventId);
  if (id <= asOf || current() === null) return false;
  asOf = id;
  return true;
}

function takeStep(event: MessageEvent<string>) {
  if (isNew(event)) showSoon(withStep(current()!, JSON.parse(event.data)));
}

function takeSnapshot(event: MessageEvent<string>) {
  if (isNew(event)) showSoon(withSnapshot(current()!, JSON.parse(event.data)));
}

function takeState(event: MessageEvent<string>) {
  if (!isNew(event)) return;
  showSoon(withState(current()!, JSON.parse(event.data)));
  refreshSoon();
}

function closeStream() {
  stream?.close();
  stream = null;
}

function openStream(id: string) {
  closeStream();
  const round = wanted;
  const source = new EventSource(
    `/v1/jobs/${encodeURIComponent(id)}/events?after=${asOf}&view=true`);
  stream = source;
  source.addEventListener("step", takeStep);
  source.addEventListener("snapshot", takeSnapshot);
  source.addEventListener("state", takeState);
  for (const kind of ["attempt", "fault", "message"]) {
    source.addEventListener(kind, (event) => {
      if (isNew(event as MessageEvent<string>)) refreshSoon();
    });
  }
  source.addEventListener("alive", heard);
  source.addEventListener("reset", () => void restart());
  source.addEventListener("end", () => {
    closeStream();
    void refresh();
  });
  source.addEventListener("error", () => {
    if (round !== wanted || source !== stream) return;
    // The browser connects again by itself unless the server has refused the stream.
    if (source.readyState === EventSource.CLOSED) {
      closeStream();
      streamIsRefused = true;
      plan(POLL_MS);
    }
  });
}

// Requests the view of the run at once, for what depends on the present.
export async function lookAgain() {
  clearTimeout(timer);
  await refresh();
}

export async function restart() {
  stop();
  draft = null;
  const round = wanted;
  await refresh();
  const id = store.runId.value;
  if (round !== wanted || id === null || store.over.value) return;
  if (store.failure.value === null && !streamIsRefused) openStream(id);
}

function stop() {
  ++wanted;
  clearTimeout(timer);
  closeStream();
}

export function choose(id: string) {
  asOf = 0n;
  streamIsRefused = false;
  batch(() => {
    store.runId.value = id;
    store.view.value = null;
    store.range.value = null;
    store.failure.value = null;
    store.heardAt.value = 0;
  });
  void restart();
}

// The view of a run is left; its state is kept.
export function leaveRun() {
  stop();
}

// The list of runs. Shows the one in the address, else the newest, once there is one.
export async function followRuns() {
  try {
    const answer = await request<{runs: RunEntry[]}>("/v1/view/runs");
    store.runs.value = answer.runs;
    const first = placeOf(location.hash).run ?? answer.runs[0]?.id;
    if (store.runId.value === null && store.isOfRun(store.shown.value)) {
      heard();
      if (first !== undefined) choose(first);
    }
  } catch (error) {
    if (store.runId.value === null && store.isOfRun(store.shown.value)) fail(error);
  }
  if (store.closedReason.value !== null) return;
  clearTimeout(runsTimer);
  const soon = store.runId.value === null && store.isOfRun(store.shown.value);
  runsTimer = setTimeout(() => void followRuns(), soon ? SOON_RUNS_MS : RUNS_MS);
}
