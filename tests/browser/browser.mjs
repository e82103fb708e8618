/** A browser for a scenario: pages whose errors are failures, and words for what scenarios ask of them. */

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const installed = createRequire(join(process.env.MGW_BROWSER, "package.json"));
const { chromium } = installed("playwright-core");
const AXE = installed.resolve("axe-core/axe.min.js");
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];
/** What a browser says of a scenario that reads a canvas, and of a status, which is judged with its address. */
const EXPECTED = /status of [45]\d\d|willReadFrequently/;
/** What a browser says of a connection that is cut. */
const CUT = /net::ERR_/;
/** The page's own address answers so to whoever has no cookie, and a sign-in with a wrong key. */
const SIGN_IN = /^401 \/ui(\/login)?$/;

export class Browser {
  constructor(base, folder) {
    this.base = base;
    this.folder = folder;
    this.problems = [];
    this.expected = [SIGN_IN];
  }

  /** Say what else is no problem: a status and a path, as in `404 /ui/nothing`. */
  expect(pattern) {
    this.expected.push(pattern);
  }

  /** Say that connections will be cut. */
  expectCuts() {
    this.cuts = true;
  }

  async start() {
    this.process = await chromium.launch({ executablePath: process.env.MGW_CHROMIUM, headless: true, args: FLAGS });
  }

  async stop() {
    await this.process.close();
  }

  /** Fail with what pages complained of. */
  judge() {
    assert.deepEqual(this.problems, [], "the page complained");
  }

  /** Open the page at a view; `path` leads to another page. */
  async open(hash = "", { path = "/ui", width = 1280, height = 900, scheme = "light", ...more } = {}) {
    const context = await this.process.newContext({ viewport: { width, height }, colorScheme: scheme, bypassCSP: false, ...more });
    const page = await context.newPage();
    page.setDefaultTimeout(20_000);
    page.on("pageerror", (error) => this.problems.push(error.stack));
    page.on("console", (message) => {
      if (!["error", "warning"].includes(message.type()) || EXPECTED.test(message.text())) return;
      if (!(this.cuts && CUT.test(message.text()))) this.problems.push(message.text());
    });
    page.on("response", (response) => {
      const said = `${response.status()} ${new URL(response.url()).pathname}`;
      if (response.status() >= 400 && !this.expected.some((pattern) => pattern.test(said))) this.problems.push(said);
    });
    page.on("request", (request) => {
      if (!request.url().startsWith(this.base) && !request.url().startsWith("data:")) this.problems.push(`asked for ${request.url()}`);
    });
    await page.goto(`${this.base}${path}${hash}`);
    return page;
  }

  /** Look at it later: the folder is said by MGW_SCREENSHOTS. */
  async picture(page, name, fullPage = true) {
    if (this.folder) await page.screenshot({ path: join(this.folder, `${name}.png`), fullPage });
  }

  /** Ask for what is serious or critical, and fail with it. */
  async audit(page, name) {
    // by the driver's own door: the policy of the page lets no other script in
    const session = await page.context().newCDPSession(page);
    const { readFile } = await import("node:fs/promises");
    await session.send("Runtime.evaluate", { expression: await readFile(AXE, "utf8") });
    const run = { expression: "axe.run(document, { resultTypes: ['violations'] }).then(r => JSON.stringify(r.violations))", awaitPromise: true };
    const { result } = await session.send("Runtime.evaluate", run);
    const found = JSON.parse(result.value).filter(({ impact }) => ["serious", "critical"].includes(impact));
    const said = found.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 4).map(({ html, failureSummary }) => `${html} ${failureSummary}`).join("\n    ")}`);
    assert.deepEqual(said, [], `accessibility of ${name}`);
  }

  /** Tell the stub something. */
  async stub(word, body) {
    const response = await fetch(`${this.base}/stub/${word}`, { method: "POST", body: JSON.stringify(body) });
    assert.equal(response.status, 200);
  }
}

/** Wait until something is true of the page, and say what was not. */
export async function until(what, check, seconds = 20) {
  const end = Date.now() + seconds * 1000;
  let last;
  do {
    try {
      if (await check()) return;
    } catch (error) {
      last = error;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  } while (Date.now() < end);
  assert.fail(`waited in vain for: ${what}${last ? ` (${last.message})` : ""}`);
}

/** The text of a tile. */
export async function tile(page, label) {
  return page.locator(".tile", { has: page.locator(`dt:text-is("${label}")`) }).locator(".value").innerText();
}

/** The columns of a chart, by the names in its legend, read from its table. */
export async function columns(page, title) {
  const chart = page.locator(".chart", { has: page.locator(`h2:text-is("${title}")`) });
  const toggle = chart.locator(`button[aria-label="${title} as a table"]`);
  if ((await toggle.getAttribute("aria-pressed")) === "false") await toggle.click();
  return chart.locator("table").evaluate((table) => {
    const names = [...table.querySelectorAll("thead th")].slice(1).map((cell) => cell.textContent);
    const rows = [...table.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("td")].map((cell) => cell.textContent));
    return Object.fromEntries(names.map((name, index) => [name, rows.map((row) => row[index])]));
  });
}
