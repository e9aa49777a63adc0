// Requests of the page, and what their failures mean to a reader.
import * as store from "./store";

export async function request<T>(path: string): Promise<T> {
  const answer = await fetch(path, {headers: {Accept: "application/json"}});
  if (answer.ok) return answer.json();
  const body = await answer.json().catch(() => null);
  const message = String(body?.error?.message ?? `The server answered ${answer.status}.`);
  if (answer.status === 401) store.closedReason.value = message;
  throw new Error(message);
}

export function reasonOf(error: unknown): string {
  if (error instanceof TypeError) return "The controller does not answer.";
  return String(error instanceof Error ? error.message : error);
}
