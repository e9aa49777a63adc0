// Where each node lies on the map: one square a node, the squares of a place side by side under its
// name, the places in rows.
import type {NodeColumns} from "./cluster_protocol";

export const CELL = 10;  // a square and its gap
const LABEL = 16;
const GAP = 10;
const SQUARES_IN_ROW = 10;
const LETTER = 6.5;  // of a place's name, about

export interface PlaceBox {
  name: string;
  left: number;
  top: number;
}

export interface MapLayout {
  left: Float32Array;  // of each node
  top: Float32Array;
  places: PlaceBox[];
  height: number;
}

export function layOut(nodes: NodeColumns, width: number): MapLayout {
  const members = nodes.places.map(() => [] as number[]);
  nodes.place.forEach((place, node) => members[place]!.push(node));
  const layout: MapLayout = {
    left: new Float32Array(nodes.name.length),
    top: new Float32Array(nodes.name.length),
    places: [],
    height: 0,
  };
  // All boxes are as wide as the widest, so that they stand below each other.
  const boxWidth = Math.max(...nodes.places.map((name, place) =>
    Math.max(Math.min(SQUARES_IN_ROW, members[place]!.length) * CELL, name.length * LETTER)));
  let left = 0;
  let top = 0;
  let rowHeight = 0;
  nodes.places.forEach((name, place) => {
    const own = members[place]!;
    // Nodes that no file places fill the whole width.
    const across = name === "" ? Math.max(1, Math.floor(width / CELL)) : SQUARES_IN_ROW;
    if (left > 0 && (name === "" || left + boxWidth > width)) {
      left = 0;
      top += rowHeight + GAP;
      rowHeight = 0;
    }
    layout.places.push({name: name || "nodes", left, top});
    own.forEach((node, i) => {
      layout.left[node] = left + (i % across) * CELL;
      layout.top[node] = top + LABEL + Math.floor(i / across) * CELL;
    });
    rowHeight = Math.max(rowHeight, LABEL + Math.ceil(own.length / across) * CELL);
    left += boxWidth + GAP;
  });
  layout.height = top + rowHeight;
  return layout;
}

// The node at a point; -1: none.
export function nodeAt(layout: MapLayout, x: number, y: number): number {
  for (let node = 0; node < layout.left.length; ++node) {
    const dx = x - layout.left[node]!;
    const dy = y - layout.top[node]!;
    if (dx >= 0 && dx < CELL && dy >= 0 && dy < CELL) return node;
  }
  return -1;
}
