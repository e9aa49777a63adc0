// Draws the nodes of the map, each state with a shape and a colour of its own.
import type {NodeColumns} from "./cluster_protocol";
import {toneOfNode, type Tone} from "./mark";
import {CELL, type MapLayout} from "./map_layout";
import {colour} from "./theme";

const SIDE = CELL - 2;
const TONES: Tone[] = ["good", "change", "warn", "bad", "off"];

// A node that is ready and has no work is hollow.
export function toneOfCell(nodes: NodeColumns, node: number): Tone {
  const tone = toneOfNode(nodes.conditions[nodes.condition[node]!]!);
  return tone === "good" && nodes.used[node] === 0 ? "off" : tone;
}

type Draw = (context: CanvasRenderingContext2D, x: number, y: number) => void;

// Sub-paths of the path that is drawn for all nodes of a state. Filling closes them; `closePath`
// would take time in proportion to the whole path so far (Chromium 156).
const SHAPES: Record<Tone, Draw> = {
  good: (context, x, y) => context.rect(x, y, SIDE, SIDE),
  change: (context, x, y) => context.rect(x, y, SIDE / 2, SIDE),
  warn: (context, x, y) => {
    context.moveTo(x + SIDE / 2, y);
    context.lineTo(x + SIDE, y + SIDE);
    context.lineTo(x, y + SIDE);
  },
  bad: (context, x, y) => {
    context.moveTo(x, y);
    context.lineTo(x + 2, y);
    context.lineTo(x + SIDE, y + SIDE - 2);
    context.lineTo(x + SIDE, y + SIDE);
    context.lineTo(x + SIDE - 2, y + SIDE);
    context.lineTo(x, y + 2);
    context.moveTo(x + SIDE, y);
    context.lineTo(x + SIDE, y + 2);
    context.lineTo(x + 2, y + SIDE);
    context.lineTo(x, y + SIDE);
    context.lineTo(x, y + SIDE - 2);
    context.lineTo(x + SIDE - 2, y);
  },
  off: (context, x, y) => context.rect(x + 0.5, y + 0.5, SIDE - 1, SIDE - 1),
};

// The other half of a node that is draining or cordoned.
function outline(context: CanvasRenderingContext2D, nodes: NodeColumns, layout: MapLayout) {
  for (let node = 0; node < nodes.name.length; ++node) {
    if (toneOfCell(nodes, node) !== "change") continue;
    context.strokeRect(layout.left[node]! + 0.5, layout.top[node]! + 0.5, SIDE - 1, SIDE - 1);
  }
}

export function drawMap(canvas: HTMLCanvasElement, nodes: NodeColumns, layout: MapLayout,
  cursor: number) {
  const ratio = devicePixelRatio;
  const width = canvas.clientWidth;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(layout.height * ratio);
  const context = canvas.getContext("2d")!;
  context.scale(ratio, ratio);
  context.font = "12px system-ui, sans-serif";
  context.fillStyle = colour("soft");
  for (const place of layout.places) context.fillText(place.name, place.left, place.top + 11);
  // One path for each state: 5,000 nodes then need five calls.
  for (const tone of TONES) {
    context.beginPath();
    for (let node = 0; node < nodes.name.length; ++node) {
      if (toneOfCell(nodes, node) !== tone) continue;
      SHAPES[tone](context, layout.left[node]!, layout.top[node]!);
    }
    context.fillStyle = context.strokeStyle = colour(tone);
    if (tone !== "off") context.fill("nonzero");
    context.lineWidth = 1;
    if (tone === "change") outline(context, nodes, layout);
    if (tone === "off") context.stroke();
  }
  if (cursor >= 0 && cursor < nodes.name.length) {
    context.strokeStyle = colour("text");
    context.lineWidth = 2;
    context.strokeRect(layout.left[cursor]! - 2, layout.top[cursor]! - 2, SIDE + 4, SIDE + 4);
  }
}
