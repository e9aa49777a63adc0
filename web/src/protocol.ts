// The form of the server's answers (docs/openapi.yaml).

export const VIEW_VERSION = 1;

export interface RunEntry {
  id: string;
  name: string;
  state: string;
  submitted_at_ms: number;
  ended_at_ms: number;
}

// In nodes. `step` lies between two numbers that the job can have; `limit` is the greatest one now.
export interface JobSize {
  minimum: number;
  maximum: number;
  step: number;
  limit: number;
}

export interface RunStatus extends RunEntry {
  reason: string;
  attempt: number;
  restarts: number;
  step: number;
  highest_step: number;
  total_steps: number;
  loss: number | null;
  first_loss: number | null;
  validation_loss: number | null;
  tokens_per_second: number;
  seconds_per_step: number;
  predicted_step_seconds: number;  // by the plan; 0: unknown
  peak_flops_per_second: number;  // of all workers; 0: unknown
  ranks: number;  // of the present gang, as accelerators_per_rank
  size: JobSize | null;  // null: the number of nodes is fixed
  accelerators_per_rank: number | null;  // null: the scheduler assigns no devices
  eta_seconds: number;
  memory_step: number;
  committed_step: number;
  copied_step: number;
  snapshot_interval_steps: number;
  snapshot_interval_reason: string;
  run_directory: string;
}

export interface Fault {
  number: number;
  what: string;
  class: string;
  node: string;
  rank: number;
  injected: boolean;
  action: string;
  lost_steps: number;
  from_step: number;
  happened_at_ms: number;
  detected_at_ms: number;
  decided_at_ms: number;
  first_step_at_ms: number;
  new_step_at_ms: number;
  lost_rank_seconds: number;
}

export interface SnapshotTier {
  tier: string;
  step: number;
  at_ms: number;
  seconds: number;
  bytes: number;
  count: number;
}

export interface Node {
  name: string;
  condition: string;
  connected: boolean;
  health: number;
  last_fault: string;
  first_rank: number;
  ranks: number;
}

export interface Ledger {
  rank_seconds: number;
  wall_seconds: number;
  goodput: number;
  categories: {category: string; rank_seconds: number}[];
}

// The rank seconds of each category in periods of one width, from `from_ms` on.
export interface SpentTime {
  from_ms: number;
  width_ms: number;
  periods: number;
  categories: {category: string; rank_seconds: number[]}[];
}

// How long groups of ranks worked in a step, relative to the median of the same moment. A column is
// a period that has values: two hexadecimal digits for each group, in fiftieths of the median.
export interface RankWork {
  from_ms: number;
  width_ms: number;
  ranks: number;
  ranks_per_group: number;
  median_us: number;  // of the newest entry
  slowest: number[];  // the slowest rank of each group, in the newest entry
  index: number[];    // the period of each column
  columns: string[];
}

// Columns of the periods that have samples; null: the period has no finite value.
export interface SeriesColumns {
  width_ms: number;
  index: number[];
  step: number[];
  first: (number | null)[];
  min: (number | null)[];
  max: (number | null)[];
  last: (number | null)[];
  not_finite: number[];
}

export interface AllSeries {
  from_ms: number;
  loss: SeriesColumns;
  validation_loss: SeriesColumns;
  tokens_per_second: SeriesColumns;
  flops_per_second: SeriesColumns;
  goodput: SeriesColumns;
}

export interface RunView {
  version: number;
  as_of: string;
  now_ms: number;
  run: RunStatus;
  loss_now: {tier: string; step: number; steps: number; seconds: number} | null;
  ledger: Ledger;
  spent_time: SpentTime | null;  // null: the log of the run is too old for it
  rank_work: RankWork | null;  // null: no rank has reported it
  faults: Fault[];
  faults_total: number;
  snapshots: SnapshotTier[];
  nodes: Node[];
  nodes_total: number;
  series?: AllSeries;
}

// The data of events of the stream; only the parts that the page reads.
export interface StateEvent {
  at_ns: number;
  state: {state: string; reason: string};
}

export interface SnapshotEvent {
  at_ns: number;
  snapshot: {step: number; tier: string; seconds: number; bytes: number};
}

export interface StepEvent {
  at_ns: number;
  step: {
    step: number;
    attempt: number;
    loss: number | null;
    has_loss: boolean;
    has_validation_loss: boolean;
    validation_loss: number | null;
    tokens_per_second: number;
    flops_per_second: number;
    eta_seconds: number;
    goodput: number;
    total_steps: number;
    step_seconds: number;
  };
}

export function isOver(state: string): boolean {
  return state === "succeeded" || state === "failed" || state === "stopped";
}
