// What the browser tests share: Chromium, and a record of what a page did that it must not.
import {readFileSync} from "node:fs";
import {createRequire} from "node:module";
import puppeteer from "puppeteer-core";

const require = createRequire(import.meta.url);
const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export async function launch(chromium) {
  return puppeteer.launch({
    executablePath: chromium,
    args: ["--no-sandbox", "--disable-dev-shm-usage"],  // it runs as root in containers
  });
}

// Returns a page, and lists that stay empty on a good one.
export async function open(browser, origin, {width = 1280, height = 1000} = {}) {
  const page = await browser.newPage();
  await page.setViewport({width, height});
  const record = {foreign: [], errors: []};
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol.startsWith("http") && url.origin !== origin) record.foreign.push(url.href);
  });
  page.on("pageerror", (error) => record.errors.push(String(error)));
  page.on("console", (message) => {
    const text = message.text();
    // A request that the controller refuses is shown by the page itself.
    if (message.type() === "error" && !text.startsWith("Failed to load resource")) {
      record.errors.push(text);
    }
  });
  return {page, record};
}

// The rules of WCAG 2.2 AA that axe can check. Through the debugging protocol, because the page's
// policy refuses scripts of others.
export async function accessibility(page) {
  await page.evaluate(axeSource);
  return page.evaluate(async () => {
    const result = await globalThis.axe.run({
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    });
    return result.violations.map((each) =>
      `${each.id}: ${each.nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`);
  });
}

export async function setTheme(page, theme) {
  await page.emulateMediaFeatures([{name: "prefers-color-scheme", value: theme}]);
}

// The state and the text of each panel.
export async function panels(page) {
  return page.evaluate(() => Object.fromEntries(
    [...document.querySelectorAll(".panel")].map((panel) =>
      [panel.id, {state: panel.dataset.state, text: panel.textContent}])));
}
