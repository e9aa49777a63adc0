// The form of GET /v1/view/cluster (docs/openapi.yaml).

export interface NodeColumns {
  name: string[];
  place: number[];
  condition: number[];
  slots: number[];
  used: number[];
  job: number[];
  reservation: number[];
  places: string[];
  conditions: string[];
  jobs: string[];
  reservations: string[];
}

export interface Queue {
  name: string;
  parent: string;
  guarantee: number | null;  // null: unlimited, as below
  limit: number | null;
  usage: number;
  borrowed: number;
  running: number;
  waiting: number;
}

export interface WaitingJob {
  id: string;
  queue: string;
  owner: string;
  workers: number;
  submitted_at_ms: number;
  sentence: string;
  explained: boolean;
  expected_start_ms: number | null;
  expected_late_ms: number | null;
}

// The mean number of accelerators in each period; null: the period has no sample.
export interface OccupancyColumns {
  from_ms: number;
  width_ms: number;
  in_use: (number | null)[];
  idle: (number | null)[];       // free, of nodes without any use
  fragments: (number | null)[];  // free, of nodes that are partly in use
  unavailable: (number | null)[];
}

export interface ClusterView {
  version: number;
  now_ms: number;
  nodes: NodeColumns;
  queues: Queue[];
  waiting: WaitingJob[];
  waiting_total: number;
  occupancy: OccupancyColumns | null;  // null: no node has joined yet
}
