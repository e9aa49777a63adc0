// Numbers, times and foreign text as a reader sees them.

export const UNKNOWN = "unknown";

// Made once: to make one takes longer than to use it a hundred times.
const WHOLE = new Intl.NumberFormat("en-US");
const THOUSANDTHS = new Intl.NumberFormat("en-US",
  {minimumFractionDigits: 3, maximumFractionDigits: 3});
const CLOCK = new Intl.DateTimeFormat("en-GB",
  {hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23"});
const withDecimals = new Map<number, Intl.NumberFormat>();

// At most so many decimals.
function decimals(most: number): Intl.NumberFormat {
  let format = withDecimals.get(most);
  if (format === undefined) {
    format = new Intl.NumberFormat("en-US", {maximumFractionDigits: most});
    withDecimals.set(most, format);
  }
  return format;
}

export function number(value: number | null | undefined, digits = 4): string {
  if (value === null || value === undefined) return "not finite";
  if (!Number.isFinite(value)) return "not finite";
  if (value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-4)) {
    return value.toExponential(digits - 1);
  }
  const whole = Math.abs(value) >= 1 ? Math.floor(Math.log10(Math.abs(value))) + 1 : 1;
  return decimals(Math.max(0, digits - whole)).format(value);
}

// With as many decimals for each, so that a column of them can be compared at a glance.
export function seconds(value: number): string {
  return THOUSANDTHS.format(value);
}

export function count(value: number): string {
  return WHOLE.format(value);
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}

export function duration(seconds: number): string {
  if (!Number.isFinite(seconds) || seconds < 0) return UNKNOWN;
  if (seconds > 0 && seconds < 1e-3) return "under 1 ms";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const total = Math.round(seconds);
  const minutes = Math.floor(total / 60);
  if (minutes < 60) return `${minutes} min ${total % 60} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

// A time after a fault: "+12.3 ms".
export function offset(seconds: number): string {
  const size = Math.abs(seconds);
  const text = size > 0 && size < 0.1 ? `${(size * 1e3).toFixed(1)} ms` : duration(size);
  return (seconds < 0 ? "−" : "+") + (seconds === 0 ? "0 s" : text);
}

// How long ago something was, which the page shows anew each second.
export function age(seconds: number): string {
  return seconds < 60 ? `${Math.max(0, Math.floor(seconds))} s` : duration(seconds);
}

export function plural(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    ++unit;
  }
  return `${number(value, 3)} ${units[unit]}`;
}

export function clock(ms: number): string {
  if (ms === 0) return "not yet";
  return CLOCK.format(ms);
}

// An instant that may be days away.
export function dayAndClock(ms: number): string {
  const date = new Date(ms);
  const day = date.toLocaleDateString("en-GB", {weekday: "short", day: "numeric", month: "short"});
  const today = new Date().toDateString() === date.toDateString();
  return today ? clock(ms) : `${day} ${clock(ms)}`;
}

// An instant that may be years ago.
export function dayAndMinute(ms: number): string {
  return new Date(ms).toLocaleString("en-GB", {dateStyle: "medium", timeStyle: "short"});
}

const LONGEST_TEXT = 400;
// Control characters, and those that change the direction of the text around them.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

// Text from jobs, nodes and workers: unseen characters become visible, long texts are cut.
export function foreign(text: string, longest = LONGEST_TEXT): string {
  const cut = text.length > longest ? `${text.slice(0, longest)}…` : text;
  return escaped(cut);
}

function escaped(text: string): string {
  return text.replace(UNSEEN, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// A word of a shell command that the reader copies. Unseen characters are written as escapes,
// which bash understands, so that a copied command does only what it shows.
export function shellWord(text: string): string {
  const safe = /^[A-Za-z0-9_./:@%+=,-]+$/;
  if (safe.test(text)) return text;
  if (text.search(UNSEEN) < 0) return `'${text.replaceAll("'", "'\\''")}'`;
  return `$'${escaped(text.replace(/[\\']/g, "\\$&"))}'`;
}

export function words(identifier: string): string {
  return identifier.replaceAll("_", " ");
}
