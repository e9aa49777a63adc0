// The categories of the ledger in the groups that the bar shows, from the productive time up.
import type {Ledger} from "./protocol";

export interface Group {
  id: string;
  title: string;
  categories: string[];
}

export const GROUPS: Group[] = [
  {id: "productive", title: "productive", categories: ["productive"]},
  {id: "lost", title: "lost work", categories: ["lost_work"]},
  // A first start has the same stages as the restart after a fault.
  {id: "recovery", title: "start and recovery", categories: ["detect", "diagnose", "repair",
    "start_up_time", "rendezvous_time", "restore_time"]},
  {id: "snapshot", title: "snapshots", categories: ["snapshot"]},
  {id: "input", title: "input", categories: ["data_stall"]},
  {id: "other", title: "other", categories: []},  // all that no other group has
];

const NAMED = new Set(GROUPS.flatMap((group) => group.categories));

export interface Share {
  group: Group;
  rankSeconds: number;
}

export function isIn(group: Group, category: string): boolean {
  return group.id === "other" ? !NAMED.has(category) : group.categories.includes(category);
}

export function sharesOf(ledger: Ledger): Share[] {
  return GROUPS.map((group) => ({
    group,
    rankSeconds: ledger.categories
      .filter(({category}) => isIn(group, category))
      .reduce((sum, each) => sum + each.rank_seconds, 0),
  }));
}

export function sumOf(ledger: Ledger): number {
  return ledger.categories.reduce((sum, each) => sum + each.rank_seconds, 0);
}

// The categories are added up in another order than the server's, so the last digits may differ.
export function sumAgrees(ledger: Ledger): boolean {
  return Math.abs(sumOf(ledger) - ledger.rank_seconds) <= 1e-6 * Math.max(1, ledger.rank_seconds);
}
