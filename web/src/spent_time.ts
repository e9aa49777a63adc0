// The time of all ranks in the groups of the ledger, period by period.
import {GROUPS, isIn, type Group} from "./ledger_groups";
import type {SpentTime} from "./protocol";

export interface GroupColumn {
  group: Group;
  rankSeconds: number[];  // of each period
}

// The groups that have any time, from the productive time up.
export function groupsOf(spent: SpentTime): GroupColumn[] {
  return GROUPS.map((group) => {
    const rankSeconds = new Array<number>(spent.periods).fill(0);
    for (const {category, rank_seconds} of spent.categories) {
      if (!isIn(group, category)) continue;
      rank_seconds.forEach((seconds, i) => (rankSeconds[i]! += seconds));
    }
    return {group, rankSeconds};
  }).filter(({rankSeconds}) => rankSeconds.some((seconds) => seconds > 0));
}

export function sumsOf(columns: GroupColumn[], periods: number): number[] {
  return Array.from({length: periods}, (_, i) =>
    columns.reduce((sum, {rankSeconds}) => sum + rankSeconds[i]!, 0));
}

// The share that a group and those below it have of each period; null: the period has no time.
export function stacked(columns: GroupColumn[], sums: number[]): (number | null)[][] {
  const below = sums.map(() => 0);
  return columns.map(({rankSeconds}) => sums.map((sum, i) => {
    below[i]! += rankSeconds[i]!;
    return sum > 0 ? Math.min(1, below[i]! / sum) : null;
  }));
}
