// Requests of the page, and what their failures mean to a reader.
import * as store from "./store";

const ACT_LIMIT_MS = 30_000;

// An answer that is an error.
export class Refusal extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

async function bodyOf<T>(answer: Response): Promise<T> {
  if (answer.ok) return answer.json();
  const body = await answer.json().catch(() => null);
  const message = String(body?.error?.message ?? `The server answered ${answer.status}.`);
  if (answer.status === 401) store.closedReason.value = message;
  throw new Refusal(answer.status, message);
}

export async function request<T>(path: string): Promise<T> {
  return bodyOf<T>(await fetch(path, {headers: {Accept: "application/json"}}));
}

export async function post<T>(path: string, body: object): Promise<T> {
  return bodyOf<T>(await fetch(path, {
    method: "POST",
    headers: {Accept: "application/json", "Content-Type": "application/json"},
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(ACT_LIMIT_MS),
  }));
}

export function reasonOf(error: unknown): string {
  if (error instanceof TypeError) return "The controller does not answer.";
  if (error instanceof DOMException && error.name === "TimeoutError") {
    return "The controller has not answered within 30 s. It may still do what was requested.";
  }
  return String(error instanceof Error ? error.message : error);
}
