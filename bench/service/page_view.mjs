// Opens the web page in Chromium and times it. Prints one JSON object.
//
// usage: page_view.mjs CHROMIUM ADDRESS NODES SECONDS FOLDER
//   FOLDER gets the traces, which are removed by the caller
import {readFileSync} from "node:fs";
import puppeteer from "puppeteer-core";

const [chromium, address, nodes, seconds, folder] = process.argv.slice(2);
const WAIT = {timeout: 60_000, polling: "raf"};
const origin = new URL(address).origin;

const READY = {
  run: () => /\d/.test(document.querySelector("#fact-step")?.textContent ?? "") &&
    document.querySelector("#ranks canvas") !== null ? performance.now() : false,
  cluster: (wanted) => (document.querySelector("#map-summary")?.textContent ?? "")
    .includes(wanted) ? performance.now() : false,
};

// The tasks of the main threads, in ms, and the processor time of each that was spent in scripts.
function tasksOf(file) {
  const events = JSON.parse(readFileSync(file, "utf8")).traceEvents;
  const mains = new Set(events
    .filter((each) => each.name === "thread_name" && each.args.name === "CrRendererMain")
    .map((each) => `${each.pid} ${each.tid}`));
  const onMain = events.filter((each) => mains.has(`${each.pid} ${each.tid}`) && each.ph === "X");
  const scripts = onMain
    .filter((each) => ["FunctionCall", "EvaluateScript", "RunMicrotasks"].includes(each.name))
    .sort((a, b) => a.ts - b.ts);
  // A script within another one is part of it.
  const outer = [];
  let end = 0;
  for (const each of scripts) {
    if (each.ts < end) continue;
    end = each.ts + each.dur;
    outer.push(each);
  }
  return onMain.filter((each) => each.name.endsWith("RunTask")).map((task) => ({
    task: task.dur / 1e3,
    script: outer
      .filter((each) => each.pid === task.pid && each.ts >= task.ts && each.ts < task.ts + task.dur)
      .reduce((sum, each) => sum + each.tdur / 1e3, 0),
  }));
}

const browser = await puppeteer.launch({
  executablePath: chromium,
  args: ["--no-sandbox", "--disable-dev-shm-usage"],  // it runs as root in containers
});
const result = {};
let next = address;
for (const view of ["run", "cluster"]) {
  const page = await browser.newPage();
  await page.setViewport({width: 1280, height: 1000});
  // The address begins the session; what is timed is the page itself.
  await page.goto(next, {waitUntil: "domcontentloaded"});
  await page.goto("about:blank");
  await page.goto(`${origin}/#/${view}`, {waitUntil: "domcontentloaded"});
  const ready = await page.waitForFunction(READY[view], WAIT, nodes);
  await ready.dispose();
  // Drawn: the frame with these data has been made.
  const drawn = await page.evaluate(() => new Promise((done) =>
    requestAnimationFrame(() => setTimeout(() => done(performance.now())))));
  result[view] = {first_view_ms: drawn};
  await new Promise((done) => setTimeout(done, 2000));
  const file = `${folder}/${view}.json`;
  await page.tracing.start({path: file, categories: ["toplevel", "devtools.timeline", "v8.execute"]});
  await new Promise((done) => setTimeout(done, 1000 * Number(seconds)));
  await page.tracing.stop();
  result[view].tasks = tasksOf(file);
  next = `${origin}/#/${view}`;
  await page.close();
}
await browser.close();
console.log(JSON.stringify(result));
