// Which view is shown. address.ts has the form of the address.
import {batch, effect} from "@preact/signals";

import {addressOf, placeOf} from "./address";
import {followCluster, leaveCluster} from "./cluster_store";
import {askAgain, chosenFault, followFault, leaveFault} from "./fault_store";
import {loadPlanner} from "./plan_store";
import * as store from "./store";
import {choose, followRuns, leaveRun, restart} from "./transport";

// From now on the address names what is shown. Before the first run is known, the address may name
// the one that is wanted.
export function keepAddress() {
  effect(() => {
    const place = {view: store.shown.value, run: store.runId.value, fault: chosenFault.value};
    if (place.run === null && placeOf(location.hash).view === place.view) return;
    history.replaceState(null, "", addressOf(place));
  });
}

function begin() {
  batch(() => {
    store.failure.value = null;
    store.range.value = null;
    store.heardAt.value = 0;
  });
}

export function showCluster() {
  if (store.frozen.value !== null) return;
  leaveRun();
  leaveFault();
  begin();
  store.shown.value = "cluster";
  followCluster();
}

export function showPlan() {
  if (store.frozen.value !== null) return;
  leaveRun();
  leaveFault();
  leaveCluster();
  begin();
  store.shown.value = "plan";
  void loadPlanner();
}

// The run view and the fault view follow the same run.
function follow(view: "run" | "fault") {
  const followed = store.isOfRun(store.shown.value) && store.runId.value !== null;
  if (view === "run") leaveFault();
  store.shown.value = view;
  if (view === "fault") followFault();
  if (followed || store.frozen.value !== null) return;
  leaveCluster();
  begin();
  if (store.runId.value !== null) return choose(store.runId.value);
  void followRuns();
}

export function showRun() {
  follow("run");
}

// null: the newest one.
export function showFault(number: number | null) {
  chosenFault.value = number;
  follow("fault");
}

export function chooseRun(id: string) {
  chosenFault.value = null;
  choose(id);
}

export function retry() {
  if (store.shown.value === "cluster") return followCluster();
  if (store.shown.value === "plan") return void loadPlanner();
  if (store.shown.value === "fault") askAgain();
  if (store.runId.value !== null) void restart();
}

export function showAddressed() {
  const place = placeOf(location.hash);
  if (place.view === "cluster") return showCluster();
  if (place.view === "plan") return showPlan();
  const id = store.runId.value;
  if (id !== null && place.run !== null && place.run !== id && store.frozen.value === null) {
    if (store.isOfRun(store.shown.value)) choose(place.run);
    else store.runId.value = place.run;  // it is chosen with its view
  }
  if (place.view === "fault") return showFault(place.fault);
  chosenFault.value = null;
  showRun();
}
