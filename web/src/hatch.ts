// The patterns of the groups of the ledger on a canvas: those of style/ledger.css.
import {colour, themeVersion} from "./theme";

// The colour, the width of its lines, the distance between them, and the direction in degrees of
// the style sheet's gradient.
const PATTERNS: Record<string, [string, number, number, 0 | 45 | 90 | -45]> = {
  lost: ["bad", 4, 6, 45],
  recovery: ["warn", 4, 6, -45],
  snapshot: ["change", 4, 6, 90],
  input: ["off", 2, 6, 0],
  other: ["off", 1, 5, 45],
};

const made = new Map<string, CanvasPattern | string>();
let madeFor = -1;

// Lines of `step` pixels distance on a tile that repeats without a seam.
function tileOf(name: string, width: number, step: number, degrees: number): HTMLCanvasElement {
  const slanted = Math.abs(degrees) === 45;
  const side = Math.round(step * (slanted ? Math.SQRT2 : 1) * devicePixelRatio);
  const tile = document.createElement("canvas");
  tile.width = tile.height = side;
  const context = tile.getContext("2d")!;
  context.fillStyle = colour("panel");
  context.fillRect(0, 0, side, side);
  context.strokeStyle = colour(name);
  context.lineWidth = width * devicePixelRatio;
  context.beginPath();
  for (let shift = -side; shift <= side; shift += side) {
    if (slanted) {
      const up = degrees < 0;  // as a gradient's direction, at right angles to the lines
      context.moveTo(shift - side, up ? side * 2 : -side);
      context.lineTo(shift + side * 2, up ? -side : side * 2);
    } else if (degrees === 0) {
      context.moveTo(0, shift + side / 2);
      context.lineTo(side, shift + side / 2);
    } else {
      context.moveTo(shift + side / 2, 0);
      context.lineTo(shift + side / 2, side);
    }
  }
  context.stroke();
  return tile;
}

export function hatch(context: CanvasRenderingContext2D, group: string): CanvasPattern | string {
  if (madeFor !== themeVersion.value) made.clear();
  madeFor = themeVersion.value;
  const pattern = PATTERNS[group];
  if (pattern === undefined) return colour("good");
  let found = made.get(group);
  if (found === undefined) {
    found = context.createPattern(tileOf(...pattern), "repeat")!;
    made.set(group, found);
  }
  return found;
}
