// How long each rank works in a step, relative to the median: a heat map of ranks and time.
import {useEffect, useRef, useState} from "preact/hooks";

import {useCanvasWidth} from "../canvas_width";
import {clock, count, duration, plural, shellWord} from "../format";
import {Mark} from "../mark";
import {Panel} from "../panel";
import type {RankWork} from "../protocol";
import {columnsOf, comparison, groupName, lateGroups} from "../rank_map";
import {drawRankMap, MARK_WIDTH, type Drawn} from "../rank_map_draw";
import * as store from "../store";
import {themeVersion} from "../theme";

const LEAST_HEIGHT = 64;
const MOST_LISTED = 40;
const MOST_NAMED = 5;
const MOVES: Record<string, [number, number]> = {ArrowLeft: [-1, 0], ArrowRight: [1, 0],
  ArrowUp: [0, -1], ArrowDown: [0, 1]};

type Cursor = {column: number; group: number};

function describe(work: RankWork, columns: Uint8Array[], cursor: Cursor | null): string {
  const column = cursor === null ? undefined : columns[cursor.column];
  if (cursor === null || column === undefined) return "";
  const at = work.from_ms + work.index[cursor.column]! * work.width_ms;
  return `${groupName(work, cursor.group)}, ${clock(at)}: ${comparison(column[cursor.group]!)}`;
}

function HeatMap({work, columns, late}:
  {work: RankWork; columns: Uint8Array[]; late: number[]}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useCanvasWidth(canvas);
  const [chosen, setCursor] = useState<Cursor | null>(null);
  const theme = themeVersion.value;
  const groups = work.slowest.length;
  const first = work.index[0]!;
  const periods = work.index.at(-1)! - first + 1;
  // Widths may have doubled, and a smaller job has fewer groups, since the cursor was moved.
  const cursor = chosen !== null && chosen.column < columns.length && chosen.group < groups
    ? chosen : null;
  useEffect(() => {
    if (width === 0) return;
    const places = work.index.map((index) => index - first);
    const drawn: Drawn = {columns, places, periods, late, cursor};
    drawRankMap(canvas.current!, drawn);
  }, [work, width, cursor, theme]);
  const point = (event: MouseEvent) => {
    const element = canvas.current!;
    const period = first +
      Math.floor((event.offsetX / Math.max(1, element.clientWidth - MARK_WIDTH)) * periods);
    const column = work.index.indexOf(period);
    const group = Math.floor((event.offsetY / element.clientHeight) * groups);
    setCursor(column < 0 || group < 0 || group >= groups ? null : {column, group});
  };
  const move = (event: KeyboardEvent) => {
    const by = MOVES[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const from = cursor ?? {column: columns.length - 1, group: 0};
    const within = (value: number, end: number) => Math.min(end - 1, Math.max(0, value));
    setCursor(cursor === null ? from : {column: within(from.column + by[0], columns.length),
      group: within(from.group + by[1], groups)});
  };
  const times = columns.length < 2 ? plural(columns.length, "period")
    : `${plural(columns.length, "period")} of ${duration(work.width_ms / 1e3)}`;
  return (
    <>
      <div class="map-holder" tabIndex={0} role="group" onKeyDown={move}
        aria-label={`Heat map of ${plural(work.ranks, "rank")} in ` +
          `${plural(groups, "row")} and ${times}. Use the arrow keys to read values.`}>
        <canvas class="heat" ref={canvas} onMouseMove={point}
          style={{height: `${Math.max(LEAST_HEIGHT, groups * 2)}px`}} />
      </div>
      <p class="heat-times soft" aria-hidden="true">
        <span>{clock(work.from_ms + first * work.width_ms)}</span>
        <span>{groupName(work, 0)} at the top, {groupName(work, groups - 1)} at the bottom</span>
        <span>{clock(work.from_ms + (first + periods) * work.width_ms)}</span>
      </p>
      <p class="cursor" role="status">{describe(work, columns, cursor) || "\u00a0"}</p>
    </>
  );
}

function Late({work, late}: {work: RankWork; late: {group: number; value: number}[]}) {
  if (late.length === 0) return <p id="late">No rank works clearly longer than the median.</p>;
  const more = late.length - MOST_NAMED;
  return (
    <ul id="late" class="plain">
      {late.slice(0, MOST_NAMED).map(({group, value}) => (
        <li key={group}>
          <Mark tone="warn" word={`rank ${count(work.slowest[group]!)}`} /> works at least{" "}
          {comparison(value)} in each of the newest periods.
        </li>
      ))}
      {more > 0 && <li class="soft">And {plural(more, work.ranks_per_group > 1 ? "group" : "rank")}
        {" "}more.</li>}
    </ul>
  );
}

function Table({work, columns}: {work: RankWork; columns: Uint8Array[]}) {
  const [open, setOpen] = useState(false);
  const newest = columns.at(-1)!;
  const rows = [...newest].map((value, group) => ({value, group}))
    .sort((a, b) => b.value - a.value || a.group - b.group).slice(0, MOST_LISTED);
  return (
    <details onToggle={(event) => setOpen((event.target as HTMLDetailsElement).open)}>
      <summary>The newest period as a table, slowest first</summary>
      {open && (
        <div class="scroll" tabIndex={0} role="group" aria-label="The newest period as a table">
          <table>
            <thead><tr><th>Ranks</th><th class="number">Slowest</th><th>Works</th></tr></thead>
            <tbody>
              {rows.map(({value, group}) => (
                <tr key={group}>
                  <td>{groupName(work, group)}</td>
                  <td class="number">{count(work.slowest[group]!)}</td>
                  <td>{comparison(value)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}

function Content({work}: {work: RankWork}) {
  const columns = columnsOf(work);
  const late = lateGroups(columns);
  return (
    <>
      <p>
        In a step a rank works {duration(work.median_us / 1e6)} (median), and then it waits for the
        others.{" "}
        {work.ranks_per_group > 1 &&
          `A row has ${count(work.ranks_per_group)} ranks and shows the slowest of them.`}
      </p>
      <p class="legend">
        <span class="heat-scale" role="img" aria-label="The scale of colours" />
        <span>the median or less, to twice the median or more</span>
        <Mark tone="warn" word="20 % or more above the median in the newest periods" />
      </p>
      <HeatMap work={work} columns={columns} late={late.map(({group}) => group)} />
      <Late work={work} late={late} />
      <Table work={work} columns={columns} />
    </>
  );
}

export function RanksPanel() {
  const view = store.view.value;
  const work = view?.rank_work ?? null;
  const empty = view === null || work !== null ? null : {
    reason: "No rank has reported yet how long it waits for the others. The built-in trainer " +
      "does, and a command can through the worker API. Slow workers of other commands are found " +
      "by measurements:",
    command: `longhaul status ${shellWord(view.run.id)}`,
  };
  return (
    <Panel id="ranks" title="Ranks" ready={view !== null} empty={empty}>
      {work !== null && <Content work={work} />}
    </Panel>
  );
}
