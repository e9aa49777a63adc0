// The data of a report: a page that is frozen into one file after the run.
import type {FaultView} from "./fault_protocol";
import type {RunView} from "./protocol";

export interface Frozen {
  made_at_ms: number;
  view: RunView;
  faults: FaultView[];
}

// Returns null on a live page.
export function readFrozen(): Frozen | null {
  const text = document.getElementById("report")?.textContent;
  return text === undefined || text === null ? null : JSON.parse(text) as Frozen;
}
