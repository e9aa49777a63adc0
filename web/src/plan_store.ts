// The state of the plan view: what the planner knows, the plan under way, and those of this page.
import {signal} from "@preact/signals";

import {shellWord} from "./format";
import type {PlanAnswer, Planner, PlanRequest, PlanResult} from "./plan_protocol";
import {post, reasonOf, request} from "./request";
import * as store from "./store";

const POLL_MS = 500;
const MOST_KEPT = 20;

export interface Plan {
  number: number;  // of this page, from 1
  asked: PlanRequest;
  result: PlanResult;
}

export const planner = signal<Planner | null>(null);
export const running = signal<{asked: PlanRequest; answer: PlanAnswer | null} | null>(null);
export const plans = signal<Plan[]>([]);  // the oldest first
export const chosenPlan = signal(0);      // its number; 0: none yet
export const chosenLayout = signal(0);    // its place in the result
export const planFailure = signal("");

let made = 0;

export async function loadPlanner() {
  try {
    planner.value = await request<Planner>("/v1/planner");
    store.heard();
  } catch (error) {
    store.failure.value = reasonOf(error);
  }
}

export function shownPlan(): Plan | null {
  return plans.value.find(({number}) => number === chosenPlan.value) ?? null;
}

export function choosePlan(number: number) {
  chosenPlan.value = number;
  chosenLayout.value = 0;
}

function keep(asked: PlanRequest, result: PlanResult) {
  plans.value = [...plans.value, {number: ++made, asked, result}].slice(-MOST_KEPT);
  choosePlan(made);
}

function pause() {
  return new Promise((done) => setTimeout(done, POLL_MS));
}

// From the request to the plan's end. One at a time.
export async function makePlan(asked: PlanRequest) {
  if (running.value !== null) return;
  planFailure.value = "";
  running.value = {asked, answer: null};
  try {
    let answer = await post<PlanAnswer>("/v1/plans", asked);
    while (answer.state === "waiting" || answer.state === "searching") {
      running.value = {asked, answer};
      await pause();
      answer = await request<PlanAnswer>(`/v1/plans/${answer.plan}`);
    }
    if (answer.state === "failed") planFailure.value = answer.error;
    if (answer.result !== undefined) keep(asked, answer.result);
  } catch (error) {
    planFailure.value = reasonOf(error);
  }
  running.value = null;
}

export async function cancelPlan() {
  const answer = running.value?.answer;
  if (answer === null || answer === undefined) return;
  try {
    await post<PlanAnswer>(`/v1/plans/${answer.plan}/cancel`, {});
  } catch (error) {
    planFailure.value = reasonOf(error);
  }
}

// The command that makes the same plan. A model that was typed has to be saved first.
export function planCommand(asked: PlanRequest, fix?: string): string {
  const words = [asked.model ?? "model.yaml", `${asked.device}:${asked.devices}`];
  const add = (option: string, value: number | string | undefined) => {
    if (value !== undefined && value !== "") words.push(`--${option}`, String(value));
  };
  add("batch", asked.batch);
  add("sequence", asked.sequence);
  add("tokens", asked.tokens);
  add("precision", asked.precision);
  add("framework", asked.framework);
  add("fix", fix ?? asked.fix);
  return `longhaul plan ${words.map(shellWord).join(" ")}`;
}
