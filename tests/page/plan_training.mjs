// Plans trainings on a real controller in Chromium. Prints one JSON object of what it saw.
//
// usage: plan_training.mjs CHROMIUM VIEWER-ADDRESS OPERATOR-ADDRESS
import {accessibility, launch, open, panels, setTheme} from "./browser.mjs";

const [chromium, viewer, operator] = process.argv.slice(2);
const origin = new URL(viewer).origin;
const WAIT = {timeout: 120_000, polling: 100};
const text = (page, selector) => page.$eval(selector, (element) => element.textContent);

async function openPage(browser, address) {
  const context = await browser.createBrowserContext();
  const {page, record} = await open({newPage: () => context.newPage()}, origin);
  await page.goto(address);
  await page.waitForSelector("nav", WAIT);
  await page.keyboard.press("g");
  await page.keyboard.press("p");
  await page.waitForSelector('#plan-form:not([data-state="loading"])', WAIT);
  return {page, record};
}

async function fill(page, values) {
  for (const [name, value] of Object.entries(values)) {
    const selector = `#plan-${name}`;
    const isChoice = await page.$eval(selector, (element) => element.tagName === "SELECT");
    if (isChoice) {
      await page.select(selector, value);
      continue;
    }
    await page.$eval(selector, (element) => element.select());
    await page.keyboard.press("Backspace");
    await page.type(selector, value);
  }
}

// Sends the form by keyboard, and waits until the plan has ended.
async function plan(page, values) {
  await fill(page, values);
  await page.focus("#plan-send");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#plan-progress", WAIT);
  await page.waitForSelector("#plan-progress", {...WAIT, hidden: true});
}

const rows = (page, panel) => page.$$eval(`#${panel} tbody tr`, (all) =>
  all.map((row) => [...row.cells].map((cell) => cell.textContent)));

async function screenshot(page, name) {
  if (!process.env.PAGE_SCREENSHOTS) return;
  await page.screenshot({path: `${process.env.PAGE_SCREENSHOTS}/${name}.png`, fullPage: true});
}

const browser = await launch(chromium);
try {
  const seen = {};
  const looks = await openPage(browser, viewer);
  seen.viewer = (await panels(looks.page))["plan-form"];

  const {page, record} = await openPage(browser, operator);
  await plan(page, {model: "gpt2", device: "h100-sxm", devices: "16", batch: "256",
    tokens: "300B"});
  seen.summary = await text(page, "#plan-summary");
  seen.layouts = await rows(page, "plan-layouts");
  seen.command = await text(page, "#plan-command");
  seen.step = await rows(page, "plan-step");
  seen.memory = await text(page, "#plan-memory");
  seen.influences = await rows(page, "plan-influences");

  // The second layout, by keyboard.
  await page.focus('[data-layout="1"]');
  await page.keyboard.press("Enter");
  await page.waitForFunction((first) =>
    document.querySelector("#plan-command").textContent !== first, WAIT, seen.command);
  seen.secondCommand = await text(page, "#plan-command");

  // Another precision, to compare; then what is refused, and what does not fit.
  await plan(page, {precision: "fp8"});
  seen.compared = await rows(page, "plan-compared");
  await page.evaluate(() => scrollTo(0, 0));
  for (const theme of ["light", "dark"]) {
    await setTheme(page, theme);
    (seen.accessibility ??= []).push(...await accessibility(page));
    await screenshot(page, `plan-${theme}`);
  }
  await plan(page, {fix: "tensr=2"});
  seen.refused = await text(page, "#plan-failure");
  await plan(page, {fix: "", model: "llama-3.1-405b", devices: "1", tokens: "", batch: ""});
  seen.obstacle = await text(page, "#plan-obstacle");

  // A search that would take long is cancelled.
  await fill(page, {devices: "16384", seconds: "120"});
  await page.click("#plan-send");
  await page.waitForFunction(() =>
    document.querySelector("#plan-progress")?.textContent.startsWith("Searching"), WAIT);
  seen.address = await page.evaluate(() => location.hash);
  await page.click("#plan-cancel");
  await page.waitForSelector("#plan-progress", {...WAIT, hidden: true});
  seen.cancelled = await page.evaluate(async () => (await fetch("/v1/plans/5")).json());

  seen.foreign = record.foreign;
  seen.errors = record.errors;
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
