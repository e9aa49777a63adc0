// Which fault the fault view shows, and the requests that keep it. The run is followed meanwhile
// (transport.ts): the story of the fault is requested again when something about the fault or the
// run has changed, at most twice a second, and every five seconds while the fault is open.
import {computed, effect, signal} from "@preact/signals";

import type {FaultView} from "./fault_protocol";
import {VIEW_VERSION} from "./protocol";
import {reasonOf, request} from "./request";
import * as store from "./store";

const SOONEST_MS = 500;
const OPEN_MS = 5_000;

// As chosen by the reader; null: the newest.
export const chosenFault = signal<number | null>(null);
export const faultView = signal<FaultView | null>(null);
export const faultFailure = signal<string | null>(null);

const faults = computed(() => store.view.value?.faults ?? []);

export const faultNumber = computed(() => {
  if (chosenFault.value !== null) return chosenFault.value;
  return faults.value[faults.value.length - 1]?.number ?? null;
});

// What a change of the story follows from.
const signature = computed(() => {
  const run = store.view.value?.run;
  if (run === undefined || faultNumber.value === null) return null;
  const fault = faults.value.find((each) => each.number === faultNumber.value);
  return JSON.stringify([run.id, faultNumber.value, run.state, run.attempt, fault ?? null]);
});

let follows = false;
let timer: ReturnType<typeof setTimeout> | undefined;
let askedAt = -SOONEST_MS;
let round = 0;

// A story of another fault or run is not shown while the wanted one is on its way.
function dropOthers() {
  const shown = faultView.value;
  if (shown === null) return;
  if (shown.job === store.runId.value && shown.fault.number === faultNumber.value) return;
  faultView.value = null;
}

async function ask() {
  const own = ++round;
  const id = store.runId.value;
  const number = faultNumber.value;
  if (id === null || number === null) return;
  askedAt = performance.now();
  try {
    const view = await request<FaultView>(
      `/v1/view/run/${encodeURIComponent(id)}/faults/${number}`);
    if (own !== round) return;
    if (view.version !== VIEW_VERSION) return location.reload();
    faultView.value = view;
    faultFailure.value = null;
  } catch (error) {
    if (own !== round) return;
    // The controller of `longhaul run` ends with the run. What is shown is then the whole story.
    const whole = store.over.value && faultView.value !== null && !faultView.value.fault.open;
    faultFailure.value = whole ? null : reasonOf(error);
  }
  if (follows && faultView.value?.fault.open && !store.over.value) plan(OPEN_MS);
}

function plan(delayMs: number) {
  clearTimeout(timer);
  timer = setTimeout(() => void ask(), delayMs);
}

export function followFault() {
  follows = true;
  askAgain();
}

export function askAgain() {
  dropOthers();
  if (store.frozen.value !== null) {
    faultView.value =
      store.frozen.value.faults.find((each) => each.fault.number === faultNumber.value) ?? null;
  } else {
    plan(Math.max(0, askedAt + SOONEST_MS - performance.now()));
  }
}

export function leaveFault() {
  follows = false;
  ++round;
  clearTimeout(timer);
}

effect(() => {
  if (signature.value !== null && follows) askAgain();
});

// The fault that is `step` away from the one that is shown.
export function neighbour(step: number): number | null {
  const numbers = faults.value.map((each) => each.number);
  const at = numbers.indexOf(faultNumber.value ?? -1);
  return at < 0 ? null : numbers[at + step] ?? null;
}
