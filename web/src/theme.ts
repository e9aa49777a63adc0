// The colours of the style sheet, for what is drawn on a canvas.
import {signal} from "@preact/signals";

// Changes when the colours do.
export const themeVersion = signal(0);

for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
  matchMedia(query).addEventListener("change", () => ++themeVersion.value);
}

export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
