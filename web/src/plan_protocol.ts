// The forms of GET /v1/planner and of plans (docs/openapi.yaml). A plan's result is what
// `longhaul plan --json` prints, of which the page uses these parts.

export interface Planner {
  available: boolean;
  models: string[];
  devices: string[];
}

export interface PlanRequest {
  model?: string;
  model_text?: string;
  device: string;
  devices: number;
  batch?: number;
  sequence?: number;
  tokens?: string;
  precision?: string;
  framework?: string;
  fix?: string;
  seconds?: number;
}

export interface PlannedStage {
  layers: number;
  memory_bytes: Record<string, number>;  // with "total"
}

export interface PlannedRange {
  low: number;
  high: number;
}

export interface PlannedLayout {
  layout: string;
  devices: number;
  step_seconds: number;
  step_seconds_low: number;
  step_seconds_high: number;
  tokens_per_second_per_device: number;
  mfu: number;
  breakdown_seconds: Record<string, number>;
  peak_memory_bytes: number;
  device_memory_bytes: number;
  memory_share: number;
  fits: boolean;
  stages: PlannedStage[];
  frameworks: string[];
  run?: {days: PlannedRange};  // where the tokens in all are known
}

export interface PlanResult {
  model: string;
  parameters: number;
  device: string;
  devices: number;
  global_batch: number;
  sequence_length: number;
  best: PlannedLayout[];
  obstacle?: {cause: string; text: string};
  search: {points: number; finished: boolean; gap: number};
  influences?: {what: string; low: number; high: number}[];
}

export interface PlanAnswer {
  plan: number;
  state: "waiting" | "searching" | "done" | "failed" | "cancelled";
  searched_seconds: number;
  limit_seconds: number;
  error: string;
  result?: PlanResult;
}
