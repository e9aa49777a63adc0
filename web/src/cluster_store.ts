// The state of the cluster's view, and the requests that keep it. The view is compact and the
// server makes it once a second for all viewers, so it is requested anew instead of followed.
import {signal} from "@preact/signals";

import type {ClusterView} from "./cluster_protocol";
import {VIEW_VERSION} from "./protocol";
import {request, reasonOf} from "./request";
import * as store from "./store";

const POLL_MS = 3_000;

export const cluster = signal<ClusterView | null>(null);

let timer: ReturnType<typeof setTimeout> | undefined;
let round = 0;

async function poll(own: number) {
  try {
    const view = await request<ClusterView>("/v1/view/cluster");
    if (own !== round) return;
    if (view.version !== VIEW_VERSION) return location.reload();
    cluster.value = view;
    store.heard(view.now_ms);
  } catch (error) {
    if (own === round) store.failure.value = reasonOf(error);
  }
  if (own !== round || store.closedReason.value !== null) return;
  timer = setTimeout(() => void poll(own), POLL_MS);
}

export function followCluster() {
  leaveCluster();
  void poll(round);
}

export function leaveCluster() {
  ++round;
  clearTimeout(timer);
}
