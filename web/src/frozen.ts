// The data of a report: a page that is frozen into one file after the run.
import type {FaultView} from "./fault_protocol";
import type {RunView} from "./protocol";

export interface Frozen {
  view: RunView;
  faults: FaultView[];
  notes: string[];  // what is missing
}

// Returns null on a live page.
export function readFrozen(): Frozen | null {
  return data<Frozen>("report");
}

export function readLicences(): string | null {
  return data<string>("licences");
}

function data<T>(id: string): T | null {
  const text = document.getElementById(id)?.textContent;
  return text === undefined || text === null ? null : JSON.parse(text) as T;
}
