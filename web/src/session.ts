// What this browser's session may do. The server checks it for each request; the page only leaves
// out what would be refused.
import {signal} from "@preact/signals";

import {request} from "./request";
import * as store from "./store";

const ROLES = ["view", "operate", "administer"] as const;
const RETRY_MS = 5_000;

export type Role = typeof ROLES[number];

export interface Session {
  name: string;  // of the token that made the session's link
  role: Role;
}

// null: not known yet, or a report.
export const session = signal<Session | null>(null);

export function may(role: Role): boolean {
  const own = session.value;
  return own !== null && ROLES.indexOf(own.role) >= ROLES.indexOf(role);
}

export async function loadSession() {
  try {
    session.value = await request<Session>("/v1/page/session");
  } catch {
    if (store.closedReason.value === null) setTimeout(() => void loadSession(), RETRY_MS);
  }
}
