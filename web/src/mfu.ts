// Model FLOPs utilisation (MFU): the FLOPs that the model needs for its tokens in a second, over
// the peak of all workers in a second (Chowdhery et al., PaLM, 2022, appendix B). It leaves out
// FLOPs that are done twice, such as those of recomputed activations. Here it is that of the recent
// steps.
import type {RunView, SeriesColumns} from "./protocol";

// Returns null if the FLOPs or the peak are unknown.
export function utilisationOf(view: RunView): number | null {
  const last = view.series?.flops_per_second.last.at(-1);
  const peak = view.run.peak_flops_per_second;
  return last === undefined || last === null || peak <= 0 ? null : last / peak;
}

export function scaled(columns: SeriesColumns, factor: number): SeriesColumns {
  const scale = (values: (number | null)[]) =>
    values.map((value) => (value === null ? null : value * factor));
  const {first, min, max, last} = columns;
  return {...columns, first: scale(first), min: scale(min), max: scale(max), last: scale(last)};
}

const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];

// "12.3 GFLOP/s"
export function flopRate(perSecond: number): string {
  let prefix = 0;
  while (perSecond >= 1000 && prefix < PREFIXES.length - 1) {
    perSecond /= 1000;
    ++prefix;
  }
  return `${perSecond.toPrecision(3)} ${PREFIXES[prefix]}FLOP/s`;
}
