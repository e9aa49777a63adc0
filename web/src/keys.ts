// The keyboard. No key acts on the cluster, and none works while a dialog asks about an act.
import {signal} from "@preact/signals";

import {act as shownAct} from "./act";
import {copyText} from "./clipboard";
import {faultNumber, neighbour} from "./fault_store";
import {shellWord} from "./format";
import * as store from "./store";
import {showCluster, showFault, showPlan, showRun} from "./views";

export const KEYS: [string, string][] = [
  ["g c", "Show the cluster"],
  ["g r", "Show the run"],
  ["g f", "Show the run's newest fault"],
  ["g p", "Show the plans"],
  ["[, ]", "Show the previous or the next fault"],
  ["/", "Choose a run"],
  ["j, k", "Go to the next or the previous row of a table"],
  ["+, −", "Show less or more time in the charts"],
  ["0", "Show the whole run in the charts"],
  ["← → ↑ ↓", "Move the cursor of the chart or the map that has the focus"],
  ["Enter", "Open the fault, or choose the layout, of the row that has the focus"],
  ["y", "Copy the command that explains the run's faults"],
  ["?", "Show or hide this list"],
  ["Esc", "Hide this list"],
];

export const helpIsShown = signal(false);
export const copied = signal("");

export function explainCommand(): string {
  const run = store.view.value?.run;
  if (run === undefined) return "";
  const command = `longhaul explain ${shellWord(run.run_directory)}`;
  const one = store.shown.value === "fault" && faultNumber.value !== null;
  return one ? `${command} --fault ${faultNumber.value}` : command;
}

export async function copyCommand() {
  const command = explainCommand();
  if (command === "") return;
  await copyText(command, copied);
}

// Zooms around the end of what is shown, where a running job changes.
function zoom(factor: number) {
  const series = store.view.value?.series;
  if (series === undefined) return;
  const now = store.range.value ?? {from: series.from_ms, to: store.lastMs.value};
  const from = now.to - (now.to - now.from) * factor;
  store.range.value = from <= series.from_ms ? null : {from, to: now.to};
}

function goToRow(step: number) {
  const rows = [...document.querySelectorAll<HTMLElement>("tr[tabindex]")];
  if (rows.length === 0) return;
  const at = rows.indexOf(document.activeElement as HTMLElement);
  const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step;
  rows[Math.min(rows.length - 1, Math.max(0, next))]!.focus();
}

function goToFault(step: number) {
  const number = store.shown.value === "fault" ? neighbour(step) : null;
  if (number !== null) showFault(number);
}

function act(key: string): boolean {
  switch (key) {
    case "/":
      document.getElementById("runs")?.focus();
      return true;
    case "j":
      goToRow(1);
      return true;
    case "k":
      goToRow(-1);
      return true;
    case "[":
      goToFault(-1);
      return true;
    case "]":
      goToFault(1);
      return true;
    case "+":
      zoom(0.5);
      return true;
    case "-":
      zoom(2);
      return true;
    case "0":
      store.range.value = null;
      return true;
    case "y":
      void copyCommand();
      return true;
    case "?":
      helpIsShown.value = !helpIsShown.value;
      return true;
    case "Escape":
      helpIsShown.value = false;
      return true;
    default:
      return false;
  }
}

// The views are two keys: g, then the first letter.
let afterG = false;

function actOnView(key: string): boolean {
  const first = afterG;
  afterG = key === "g" && !first;
  if (!first) return afterG;
  if (key === "c") showCluster();
  if (key === "r") showRun();
  if (key === "f") showFault(null);
  if (key === "p") showPlan();
  return "crfp".includes(key);
}

export function listenToKeys() {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (shownAct.value !== null) return;
    const target = event.target as HTMLElement;
    if (target.matches("input, select, textarea")) return;
    if (actOnView(event.key) || act(event.key)) event.preventDefault();
  });
}
