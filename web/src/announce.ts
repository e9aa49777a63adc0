// What a screen reader hears: changes of the run's state and new faults, at most every 5 seconds.
import {effect, signal} from "@preact/signals";

import {foreign, words} from "./format";
import * as store from "./store";

const PAUSE_MS = 5_000;

export const announcement = signal("");

export function announceChanges() {
  let state = "";
  let faults = -1;
  let connection = "";
  let pending: string[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;

  const say = (text: string) => {
    pending.push(text);
    timer ??= setTimeout(() => {
      announcement.value = pending.join(" ");
      pending = [];
      timer = undefined;
    }, PAUSE_MS);
  };
  effect(() => {
    const view = store.view.value;
    if (store.connection.value !== connection) {
      if (connection !== "") say(`The page is ${store.connection.value}.`);
      connection = store.connection.value;
    }
    if (view === null) return;
    if (view.run.state !== state) say(`The run is ${words(view.run.state)}.`);
    if (faults >= 0 && view.faults_total > faults) {
      const newest = view.faults[view.faults.length - 1];
      if (newest !== undefined) say(`Fault ${newest.number}: ${foreign(newest.what)}.`);
    }
    state = view.run.state;
    faults = view.faults_total;
  });
}
