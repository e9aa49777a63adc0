// What the address names: "#/cluster", "#/plan", "#/run", "#/run/ID", "#/run/ID/faults" or
// "#/run/ID/faults/NUMBER".
import type {View} from "./store";

export interface Place {
  view: View;
  run: string | null;
  fault: number | null;
}

function decoded(part: string): string | null {
  try {
    return decodeURIComponent(part);
  } catch {
    return null;
  }
}

export function placeOf(hash: string): Place {
  if (hash === "#/cluster") return {view: "cluster", run: null, fault: null};
  if (hash === "#/plan") return {view: "plan", run: null, fault: null};
  const match = /^#\/run\/([^/?]+)(\/faults(?:\/(\d{1,9}))?)?/.exec(hash);
  if (match === null) return {view: "run", run: null, fault: null};
  return {
    view: match[2] === undefined ? "run" : "fault",
    run: decoded(match[1]!),
    fault: match[3] === undefined ? null : Number(match[3]),
  };
}

export function addressOf({view, run, fault}: Place): string {
  if (view === "cluster" || view === "plan") return `#/${view}`;
  if (run === null) return "#/run";
  const address = `#/run/${encodeURIComponent(run)}`;
  if (view === "run") return address;
  return fault === null ? `${address}/faults` : `${address}/faults/${fault}`;
}
