import {defineConfig} from "vite";

import {licences} from "./build/licences.ts";

// Fixed names and no source maps: the same sources give the same bytes, which a test compares with
// the committed ones.
export default defineConfig({
  plugins: [licences()],
  oxc: {jsx: {runtime: "automatic", importSource: "preact"}},
  build: {
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: {
        entryFileNames: "page.js",
        assetFileNames: "page[extname]",
        codeSplitting: false,
      },
    },
  },
});
