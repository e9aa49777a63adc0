// The heat map of the ranks' work, as columns of numbers: what stands out, and in words.
import {count, percent} from "./format";
import type {RankWork} from "./protocol";

// A value of a group in a period, in fiftieths of the median; 0: unknown.
export const OF_MEDIAN = 50;
// A rank stands out if it works so much longer than the median in each of the newest periods.
const LATE = 1.2;
const LATE_PERIODS = 3;

// The columns as numbers, in the order of time.
export function columnsOf(work: RankWork): Uint8Array[] {
  return work.columns.map((text) => Uint8Array.from(
    {length: work.slowest.length}, (_, i) => parseInt(text.slice(i * 2, i * 2 + 2), 16) || 0));
}

export function groupName(work: RankWork, group: number): string {
  const first = group * work.ranks_per_group;
  if (work.ranks_per_group === 1) return `rank ${count(first)}`;
  const last = Math.min(work.ranks, first + work.ranks_per_group) - 1;
  return `ranks ${count(first)} to ${count(last)}`;
}

// "12.0 % longer than the median"
export function comparison(value: number): string {
  if (value === 0) return "unknown";
  if (value === 255) return "5.1 times the median or more";
  const difference = value / OF_MEDIAN - 1;
  if (difference === 0) return "as long as the median";
  const size = percent(Math.abs(difference));
  return `${size} ${difference > 0 ? "longer" : "shorter"} than the median`;
}

// The groups that stand out, with the smallest value of each in the newest periods.
export function lateGroups(columns: Uint8Array[]): {group: number; value: number}[] {
  const newest = columns.slice(-LATE_PERIODS);
  if (newest.length < LATE_PERIODS) return [];
  const late = [];
  for (let group = 0; group < newest[0]!.length; ++group) {
    const value = Math.min(...newest.map((column) => column[group]!));
    if (value >= LATE * OF_MEDIAN) late.push({group, value});
  }
  return late.sort((a, b) => b.value - a.value);
}
