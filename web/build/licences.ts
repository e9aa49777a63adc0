// Writes dist/licences.txt: the licence of each library that is bundled into page.js.
import {readFileSync} from "node:fs";
import type {Plugin} from "vite";

const LIBRARIES = ["preact", "@preact/signals", "@preact/signals-core", "uplot"];

function licenceOf(name: string): string {
  const folder = new URL(`../node_modules/${name}/`, import.meta.url);
  const version = JSON.parse(readFileSync(new URL("package.json", folder), "utf8")).version;
  const licence = readFileSync(new URL("LICENSE", folder), "utf8").trim();
  return `${name} ${version}\n\n${licence}\n`;
}

export function licences(): Plugin {
  return {
    name: "licences",
    generateBundle() {
      const head = "The script page.js of this page contains the following libraries.\n";
      const source = [head, ...LIBRARIES.map(licenceOf)].join(`\n${"-".repeat(72)}\n\n`);
      this.emitFile({type: "asset", fileName: "licences.txt", source});
    },
  };
}
