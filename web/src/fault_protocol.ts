// The form of GET /v1/view/run/ID/faults/NUMBER (docs/openapi.yaml): one fault and its story.

export interface Stage {
  name: string;
  at_seconds: number;      // after the fault
  took_seconds: number;    // since the stage before
  budget_seconds: number;  // 0: depends on the job
}

export interface Moment {
  after_seconds: number;  // after the fault
  text: string;
}

export interface FaultStory {
  number: number;
  what: string;
  class: string;
  cause: string;
  node: string;
  rank: number;
  injected: boolean;
  happened_at_ms: number;
  detection_seconds: number;
  detector: string;
  attempt: number;
  observations: Moment[];
  stacks: {rank: number; node: string; calls: string[]}[];
  output: string[];
  output_file: string;
  actions: Moment[];
  restarted: boolean;
  from_step: number;
  lost_steps: number;
  over: boolean;
  open: boolean;
  recovery_seconds: number | null;
  cost_seconds: number;
  lost_rank_seconds: number;
  lost_accelerator_seconds: number | null;
  stages: Stage[];
  when_text: string;
  step_text: string;
  cost_text: string;
}

export interface FaultView {
  version: number;
  now_ms: number;
  job: string;
  job_is_over: boolean;
  faults_total: number;
  fault: FaultStory;
  advice: string;
  notes: string[];
}
