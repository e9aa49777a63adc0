// Faults on a curve: a line with a cross and the fault's number, the time without steps as a wide
// band, and the repeated steps as a narrow one. Values that are not finite: a cross at the top.
import type uPlot from "uplot";

import type {Fault, RunView} from "./protocol";
import * as store from "./store";
import {colour} from "./theme";

export function faultsOf(view: RunView | null): Fault[] {
  return view?.faults ?? [];
}

function cross(context: CanvasRenderingContext2D, x: number, y: number, size: number) {
  context.beginPath();
  context.moveTo(x - size, y - size);
  context.lineTo(x + size, y + size);
  context.moveTo(x + size, y - size);
  context.lineTo(x - size, y + size);
  context.stroke();
}

function band(chart: uPlot, fromMs: number, toMs: number, fill: string, share: number) {
  const {left, top, width, height} = chart.bbox;
  const start = Math.max(left, chart.valToPos(fromMs / 1e3, "x", true));
  const end = Math.min(left + width, chart.valToPos(toMs / 1e3, "x", true));
  if (end <= start) return;
  chart.ctx.globalAlpha = 0.22;
  chart.ctx.fillStyle = fill;
  chart.ctx.fillRect(start, top + height * (1 - share), end - start, height * share);
  chart.ctx.globalAlpha = 1;
}

function drawFault(chart: uPlot, fault: Fault, ratio: number) {
  const {left, top, width, height} = chart.bbox;
  const end = fault.first_step_at_ms || store.lastMs.value;
  band(chart, fault.happened_at_ms, end, colour("bad"), 1);
  if (fault.first_step_at_ms > 0) {
    const redone = fault.new_step_at_ms || store.lastMs.value;
    if (fault.lost_steps > 0) band(chart, fault.first_step_at_ms, redone, colour("warn"), 0.12);
  }
  const x = chart.valToPos(fault.happened_at_ms / 1e3, "x", true);
  if (x < left || x > left + width) return;
  const context = chart.ctx;
  context.beginPath();
  context.moveTo(x, top + 14 * ratio);
  context.lineTo(x, top + height);
  context.stroke();
  cross(context, x, top + 8 * ratio, 4 * ratio);
  context.textAlign = "left";
  context.fillStyle = colour("text");
  context.fillText(String(fault.number), x + 8 * ratio, top + 12 * ratio);
}

export function drawFaults(chart: uPlot, faults: Fault[], notFinite: number[]) {
  const context = chart.ctx;
  const ratio = devicePixelRatio;
  context.save();
  context.strokeStyle = colour("bad");
  context.lineWidth = 1.5 * ratio;
  context.font = `${12 * ratio}px system-ui, sans-serif`;
  for (const fault of faults) {
    drawFault(chart, fault, ratio);
  }
  for (const at of notFinite) {
    cross(context, chart.valToPos(at, "x", true), chart.bbox.top + 22 * ratio, 3 * ratio);
  }
  context.restore();
}
