// Draws the heat map of the ranks' work: one pixel for each value, scaled to the canvas.
import {OF_MEDIAN} from "./rank_map";
import {colour} from "./theme";

export const MARK_WIDTH = 14;  // on the right, for the marks of ranks that stand out

// From the background, at the median or below, to the colour of warnings at twice the median.
function scaleOf(): [number, number, number][] {
  const [back, full] = [rgbOf(colour("heat-low")), rgbOf(colour("heat-high"))];
  return Array.from({length: 256}, (_, value) => {
    const share = Math.min(1, Math.max(0, (value - OF_MEDIAN) / OF_MEDIAN));
    return [0, 1, 2].map((i) => Math.round(back[i]! + (full[i]! - back[i]!) * share)) as
      [number, number, number];
  });
}

function rgbOf(hex: string): number[] {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

// A period without a value, as while the job recovers, stays transparent.
function imageOf(columns: Uint8Array[], places: number[], width: number): HTMLCanvasElement {
  const image = document.createElement("canvas");
  image.width = Math.max(1, width);
  image.height = Math.max(1, columns[0]?.length ?? 1);
  const context = image.getContext("2d")!;
  const pixels = context.createImageData(image.width, image.height);
  const scale = scaleOf();
  columns.forEach((column, i) => column.forEach((value, group) => {
    if (value === 0) return;
    const at = (group * image.width + places[i]!) * 4;
    pixels.data.set([...scale[value]!, 255], at);
  }));
  context.putImageData(pixels, 0, 0);
  return image;
}

export interface Drawn {
  columns: Uint8Array[];
  places: number[];  // the period of each column
  periods: number;   // the length of the time axis
  late: number[];    // groups
  cursor: {column: number; group: number} | null;
}

export function drawRankMap(canvas: HTMLCanvasElement, drawn: Drawn) {
  const ratio = devicePixelRatio;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d")!;
  context.scale(ratio, ratio);
  context.imageSmoothingEnabled = false;
  const right = width - MARK_WIDTH;
  const groups = drawn.columns[0]?.length ?? 1;
  const rowHeight = height / groups;
  context.drawImage(imageOf(drawn.columns, drawn.places, drawn.periods), 0, 0, right, height);
  context.fillStyle = colour("warn");
  for (const group of drawn.late) {  // a triangle, as the state "warn" has elsewhere
    const y = (group + 0.5) * rowHeight;
    context.beginPath();
    context.moveTo(right + 2, y);
    context.lineTo(right + 12, y - 5);
    context.lineTo(right + 12, y + 5);
    context.fill();
  }
  if (drawn.cursor === null) return;
  const columnWidth = right / Math.max(1, drawn.periods);
  context.strokeStyle = colour("text");
  context.lineWidth = 2;
  const x = drawn.places[drawn.cursor.column]! * columnWidth;
  context.strokeRect(x - 1, drawn.cursor.group * rowHeight - 1,
    Math.max(4, columnWidth) + 2, Math.max(4, rowHeight) + 2);
}
