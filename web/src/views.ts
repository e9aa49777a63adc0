// Which view is shown, as the address has it: "#/cluster", "#/run" or "#/run/ID".
import {batch} from "@preact/signals";

import {followCluster, leaveCluster} from "./cluster_store";
import * as store from "./store";
import {choose, followRuns, leaveRun, restart} from "./transport";

function begin() {
  batch(() => {
    store.failure.value = null;
    store.heardAt.value = 0;
  });
}

export function showCluster() {
  leaveRun();
  begin();
  store.shown.value = "cluster";
  history.replaceState(null, "", "#/cluster");
  followCluster();
}

export function showRun() {
  leaveCluster();
  begin();
  store.shown.value = "run";
  const id = store.runId.value;
  if (id !== null) return choose(id);
  history.replaceState(null, "", "#/run");
  void followRuns();
}

export function retry() {
  if (store.shown.value === "cluster") return followCluster();
  if (store.runId.value !== null) void restart();
}

export function showAddressed() {
  if (location.hash === "#/cluster") return showCluster();
  void followRuns();
}
