// A server of the built page with a made-up run, which tests change as they need it.
import {readFileSync} from "node:fs";
import http from "node:http";

const FILES = {
  "/": ["index.html", "text/html"],
  "/page.js": ["page.js", "text/javascript"],
  "/page.css": ["page.css", "text/css"],
  "/icon.svg": ["icon.svg", "image/svg+xml"],
  "/licences.txt": ["licences.txt", "text/plain"],
};
// page_browser_test checks the policy of the real server.
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
  "connect-src 'self'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

export const EMPTY_CURVE = {width_ms: 100, index: [], step: [], first: [], min: [], max: [],
  last: [], not_finite: []};

export function curve(values) {
  const finite = values.map((value) => (Number.isFinite(value) ? value : null));
  return {
    width_ms: 100,
    index: values.map((_, i) => i * 10),
    step: values.map((_, i) => i + 1),
    first: finite, min: finite, max: finite, last: finite,
    not_finite: values.map((value) => (Number.isFinite(value) ? 0 : 1)),
  };
}

// A run that has just begun: nothing but its state is known.
export function newRun(now = Date.now()) {
  return {
    version: 1, as_of: "1000", now_ms: now,
    run: {
      id: "gpt-1", name: "gpt", state: "queued", submitted_at_ms: now - 60_000, ended_at_ms: 0,
      reason: "", attempt: 0, restarts: 0, step: 0, highest_step: 0, total_steps: 0, loss: 0,
      first_loss: 0, validation_loss: 0, tokens_per_second: 0, seconds_per_step: 0,
      predicted_step_seconds: 0, peak_flops_per_second: 0, ranks: 0, accelerators_per_rank: null,
      size: null, eta_seconds: -1, memory_step: 0, committed_step: 0, copied_step: 0,
      snapshot_interval_steps: 0, snapshot_interval_reason: "", run_directory: "/runs/gpt",
    },
    loss_now: null,
    ledger: {rank_seconds: 0, wall_seconds: 0, goodput: 0, categories: []},
    spent_time: null, rank_work: null,
    faults: [], faults_total: 0, snapshots: [], nodes: [], nodes_total: 0,
    series: {from_ms: now - 60_000, loss: EMPTY_CURVE, validation_loss: EMPTY_CURVE,
      tokens_per_second: EMPTY_CURVE, flops_per_second: EMPTY_CURVE, goodput: EMPTY_CURVE},
  };
}

// Rank 1 works half as long again as the others in the newer half of the time.
export function rankWork(groups, periods, now, ranksPerGroup = 1) {
  const column = (late) => Array.from({length: groups}, (_, group) =>
    (group === 1 && late ? 75 : 50).toString(16)).join("");
  return {
    from_ms: now - 60_000, width_ms: 1_000, ranks: groups * ranksPerGroup,
    ranks_per_group: ranksPerGroup, median_us: 2_000,
    slowest: Array.from({length: groups}, (_, group) => group * ranksPerGroup),
    index: Array.from({length: periods}, (_, i) => i + 10),
    columns: Array.from({length: periods}, (_, i) => column(i >= periods / 2)),
  };
}

// A run in which every panel has something, with `text` for each text from outside.
export function fullRun(text = "worker 1 was killed by signal 9", now = Date.now()) {
  const view = newRun(now);
  Object.assign(view.run, {state: "running", reason: text, attempt: 2, step: 50, highest_step: 50,
    total_steps: 100, loss: 2.5, tokens_per_second: 1_000, seconds_per_step: 1, eta_seconds: 50,
    predicted_step_seconds: 0.8, peak_flops_per_second: 4e12, ranks: 4, accelerators_per_rank: 2,
    snapshot_interval_steps: 10, snapshot_interval_reason: text, run_directory: `/runs/${text}`});
  view.loss_now = {tier: "memory", step: 40, steps: 10, seconds: 10};
  view.ledger = {rank_seconds: 10, wall_seconds: 5, goodput: 0.75, categories: [
    {category: "productive", rank_seconds: 7.5}, {category: "lost_work", rank_seconds: 1},
    {category: "detect", rank_seconds: 0.5}, {category: "snapshot", rank_seconds: 0.25},
    {category: "data_stall", rank_seconds: 0.25}, {category: "start_up_time", rank_seconds: 0.5},
  ]};
  // Four ranks for 60 s: a start, a fault, and the steps that it has lost.
  const periods = (values) => values.flatMap((value) => new Array(10).fill(value));
  view.spent_time = {from_ms: now - 60_000, width_ms: 1_000, periods: 60, categories: [
    {category: "productive", rank_seconds: periods([0, 3.8, 1.9, 0, 3.8, 3.8])},
    {category: "start_up_time", rank_seconds: periods([4, 0, 0, 0, 0, 0])},
    {category: "lost_work", rank_seconds: periods([0, 0, 1.9, 0, 0, 0])},
    {category: "detect", rank_seconds: periods([0, 0, 0, 1, 0, 0])},
    {category: "restore_time", rank_seconds: periods([0, 0, 0, 3, 0, 0])},
    {category: "snapshot", rank_seconds: periods([0, 0.2, 0.2, 0, 0.1, 0.1])},
    {category: "data_stall", rank_seconds: periods([0, 0, 0, 0, 0.1, 0.1])},
  ]};
  view.rank_work = rankWork(4, 40, now);
  view.faults = [{number: 1, what: text, class: "process", node: text, rank: 1, injected: true,
    action: text, lost_steps: 5, from_step: 20, happened_at_ms: now - 30_000,
    detected_at_ms: now - 29_900, decided_at_ms: now - 29_800, first_step_at_ms: now - 28_000,
    new_step_at_ms: now - 25_000, lost_rank_seconds: 1.5}];
  view.faults_total = 1;
  view.snapshots = [{tier: "disk", step: 30, at_ms: now - 20_000, seconds: 0, bytes: 0, count: 3},
    {tier: "memory", step: 40, at_ms: now - 10_000, seconds: 0.01, bytes: 5_000_000, count: 4}];
  view.nodes = [{name: text, condition: "ready", connected: true, health: 1, last_fault: text,
    first_rank: 0, ranks: 2},
  {name: "node-2", condition: "suspect", connected: true, health: 0.4, last_fault: "",
    first_rank: 2, ranks: 2}];
  view.nodes_total = 2;
  const loss = Array.from({length: 50}, (_, i) => 6 / (1 + i / 10));
  view.series = {from_ms: now - 60_000, loss: curve(loss), validation_loss: curve(loss.slice(0, 5)),
    tokens_per_second: curve(loss.map((value) => 1_000 + value)),
    flops_per_second: curve(loss.map((_, i) => 1e12 + 1e10 * (i + 1))),
    goodput: curve([0.2, 0.5, 0.75])};
  return view;
}

// The story of fault `number` of that run. An open one is decided and has not restarted.
export function faultView(number, text = "worker 1 was killed by signal 9", open = false) {
  const stages = [["detected", 0.1, 0.1, 0.001], ["decided", 0.2, 0.1, 0],
    ["processes started", 0.5, 0.3, 0.01], ["in rendezvous", 1, 0.5, 0],
    ["group formed", 1.2, 0.2, 0.04], ["state restored", 1.5, 0.3, 0],
    ["first step done", 2, 0.5, 0], ["first new step done", 5, 3, 0]]
    .map(([name, at_seconds, took_seconds, budget_seconds]) =>
      ({name, at_seconds, took_seconds, budget_seconds}));
  return {
    version: 1, now_ms: Date.now(), job: "gpt-1", job_is_over: false, faults_total: 1,
    fault: {
      number, what: text, class: "process", cause: "A signal from outside ended it.", node: text,
      rank: 1, injected: true, happened_at_ms: Date.now() - 30_000, detection_seconds: 0.1,
      detector: "The kernel reported the end.", attempt: 1,
      observations: [{after_seconds: 0, text}, {after_seconds: 0.0199, text: "Worker 2 ended."}],
      stacks: [{rank: 1, node: text, calls: [text, "barrier", "step"]}],
      output: ["step 49", text], output_file: "logs/attempt-1/rank-1.log",
      actions: open ? [] : [{after_seconds: 0.2, text: "The controller decided: restart."}],
      restarted: !open, from_step: 20, lost_steps: 5, over: !open, open,
      recovery_seconds: open ? null : 5, cost_seconds: open ? 0 : 0.75,
      lost_rank_seconds: open ? 0 : 1.5, lost_accelerator_seconds: open ? null : 3,
      stages: open ? stages.slice(0, 2) : stages, when_text: `At noon, after ${text}.`,
      step_text: open ? "Work has not continued yet." : "Work continued from step 20.",
      cost_text: open ? "The cost is known later." : "750 ms of every worker's time.",
    },
    advice: "", notes: ["The last line of events.jsonl is cut off."],
  };
}

// Places of ten nodes. Every 50th node is down, and one job waits.
export function cluster(size, text = "gpt-2") {
  const names = Array.from({length: size}, (_, i) => `${text === "gpt-2" ? "node" : text}-${i}`);
  return {
    version: 1, now_ms: Date.now(),
    nodes: {
      name: names,
      place: names.map((_, i) => Math.floor(i / 10)),
      condition: names.map((_, i) => (i % 50 === 7 ? 1 : 0)),
      slots: names.map(() => 8),
      used: names.map((_, i) => (i % 3 === 0 || i % 50 === 7 ? 0 : 8)),
      job: names.map((_, i) => (i % 3 === 0 || i % 50 === 7 ? -1 : 0)),
      reservation: names.map(() => -1),
      places: Array.from({length: Math.ceil(size / 10)}, (_, i) =>
        `block-${Math.floor(i / 10) + 1} leaf-${i + 1}`),
      conditions: ["ready", "down"], jobs: ["gpt-1"], reservations: [],
    },
    queues: [
      {name: "cluster", parent: "", guarantee: size * 8, limit: null, usage: size * 4, borrowed: 0,
        running: 0, waiting: 0},
      {name: "research", parent: "cluster", guarantee: size * 2, limit: size * 8,
        usage: size * 3, borrowed: size, running: 1, waiting: 1},
      {name: "product", parent: "cluster", guarantee: size * 2, limit: null, usage: size,
        borrowed: 0, running: 1, waiting: 0},
    ],
    waiting: [{id: text, queue: "research", owner: "alice", workers: 64,
      submitted_at_ms: Date.now() - 600_000, sentence: `${text}: 64 workers need 8 free nodes`,
      explained: true, expected_start_ms: Date.now() + 3_600_000,
      expected_late_ms: Date.now() + 7_200_000}],
    waiting_total: 1,
    occupancy: {
      from_ms: Date.now() - 600_000, width_ms: 10_000, in_use: parts(size, [0, 4, null, 5]),
      idle: parts(size, [8, 2, null, 2]), fragments: parts(size, [0, 1.5, null, 0.5]),
      unavailable: parts(size, [0, 0.5, null, 0.5]),
    },
  };
}

// Fifteen periods of each value, for every node.
function parts(size, values) {
  return values.flatMap((value) => new Array(15).fill(value === null ? null : value * size));
}

export class MadeUpServer {
  view = fullRun();
  cluster = cluster(200);
  faults = {1: faultView(1)};  // by number; others are not found
  runs = undefined;  // else those of the view
  answer = "good";   // "hang", "fail", "closed"
  session = {name: "alice", role: "view"};
  opened = Promise.resolve();  // when a one-time link is answered
  viewAnswer = null;  // else a promise of when the next request of a view without curves is answered
  // The answer to each act: (path, body) => [status, body]; undefined: none, ever.
  takeAct = () => [403, {error: {code: "permission_denied", message: "it needs another role"}}];
  requests = [];     // {url, lastEventId}
  acts = [];         // {path, body}
  streams = new Set();

  async start() {
    this.server = http.createServer((request, response) => this.handle(request, response));
    await new Promise((done) => this.server.listen(0, "127.0.0.1", done));
    this.origin = `http://127.0.0.1:${this.server.address().port}`;
  }

  stop() {
    this.server.closeAllConnections();
    this.server.close();
  }

  json(response, body, status = 200) {
    response.writeHead(status, {"Content-Type": "application/json"});
    response.end(JSON.stringify(body));
  }

  handle(request, response) {
    const path = new URL(request.url, "http://page").pathname;
    this.requests.push({url: request.url, lastEventId: request.headers["last-event-id"]});
    if (FILES[path] !== undefined) {
      const [name, type] = FILES[path];
      response.writeHead(200, {"Content-Type": type, "Content-Security-Policy": POLICY});
      return response.end(readFileSync(`${process.env.PAGE_DIST}/${name}`));
    }
    if (this.answer === "hang") return undefined;
    if (this.answer === "fail") {
      return this.json(response, {error: {code: "internal", message: "the disk is full"}}, 500);
    }
    if (this.answer === "closed") {
      return this.json(response, {error: {code: "unauthenticated", message: "it is over"}}, 401);
    }
    if (request.method === "POST" && path === "/v1/page/session") {
      return void this.opened.then(() => this.json(response, this.session));
    }
    if (request.method === "POST") return void this.act(request, response, path);
    if (path === "/v1/page/session") return this.json(response, this.session);
    if (path === "/v1/view/runs") {
      const runs = this.runs ?? [this.view.run];
      return this.json(response, {runs, total: runs.length});
    }
    if (path === "/v1/view/cluster") return this.json(response, this.cluster);
    const fault = /^\/v1\/view\/run\/[^/]+\/faults\/(\d+)$/.exec(path);
    if (fault !== null) {
      const found = this.faults[fault[1]];
      return found === undefined
        ? this.json(response, {error: {code: "not_found", message: "no such fault"}}, 404)
        : this.json(response, found);
    }
    if (path.startsWith("/v1/view/run/")) {
      const {series, ...rest} = structuredClone(this.view);
      const whole = !request.url.includes("series=false");
      if (!whole && this.viewAnswer !== null) {
        return void this.viewAnswer.then(() => this.json(response, {...rest, now_ms: Date.now()}));
      }
      return this.json(response, {...rest, now_ms: Date.now(), ...(whole ? {series} : {})});
    }
    response.writeHead(200, {"Content-Type": "text/event-stream"});
    response.write(": open\n\n");
    this.streams.add(response);
    response.on("close", () => this.streams.delete(response));
    return undefined;
  }

  async act(request, response, path) {
    let text = "";
    for await (const part of request) text += part;
    const body = JSON.parse(text);
    this.acts.push({path, body});
    const answer = this.takeAct(path, body);
    if (answer !== undefined) this.json(response, answer[1], answer[0]);
  }

  send(id, kind, data = {}) {
    for (const stream of this.streams) {
      stream.write(`${id === null ? "" : `id: ${id}\n`}event: ${kind}\n` +
        `data: ${JSON.stringify(data)}\n\n`);
    }
  }

  // A step of the run, `seconds` after its begin.
  sendStep(id, step, loss, seconds) {
    const atMs = this.view.series.from_ms + seconds * 1_000;
    this.send(id, "step", {at_ns: atMs * 1e6, step: {step, attempt: 2, loss, has_loss: true,
      has_validation_loss: false, validation_loss: 0, tokens_per_second: 2_000, eta_seconds: 10,
      goodput: 0.8, total_steps: 100, step_seconds: 1}});
  }

  cutStreams() {
    for (const stream of this.streams) stream.destroy();
  }

  async waitForStream() {
    while (this.streams.size === 0) await new Promise((done) => setTimeout(done, 20));
  }
}
