/** Before a crowded gateway under mixed load: every view, logins, a restart and a drain. */

import assert from "node:assert/strict";
import { tile, until } from "../browser.mjs";

const { MGW_EDGE_KEY: ALICE, MGW_OTHER_KEY: OTHER, MGW_DASHBOARD_KEY: DASHBOARD, MGW_CONTROL: CONTROL } = process.env;
const LONG = "a-deployment-of-a-large-model-with-a-name-that-somebody-has-made-far-too-long-2026-01-31-preview-eu-central-1";
const ARABIC = "نموذج-اللغة-العربية-الكبير";
const ROWS = [
  ["fast", ALICE], ["gpt-001-mini", ALICE], [LONG, OTHER], [ARABIC, OTHER], ["main/gpt-x+sim-cached-3", ALICE],
  ["claude/claude-x", OTHER], ["gem/gemini-x", ALICE], ["broken/gpt-x", ALICE], ["main/gpt-x+sim-status-429", OTHER],
  ["main/gpt-x+sim-status-400", ALICE], ["main/gpt-x+sim-delay-300", OTHER], ["the-team-in-frankfurt-with-a-long-name/llama", OTHER],
  ["region-07/mistral", ALICE], ["main/gpt-x+sim-error-in-stream-after-2", ALICE],
];
const SLOW = "main/gpt-x+sim-chunks-60+sim-chunk-delay-100";
const VIEWS = ["overview", "overview?by=model", "requests", "providers", "models", "sessions", "logs", "logins"];
const SIZES = [["phone", 360, 740], ["desk", 1280, 900], ["wall", 2560, 1440]];
const SLOWEST = 40;

async function ask(base, model, key, stream, signal) {
  const headers = { "Authorization": `Bearer ${key}`, "Content-Type": "application/json" };
  const body = JSON.stringify({ model, stream, messages: [{ role: "user", content: "Say something, please, and be quick." }] });
  try {
    await (await fetch(`${base}/v1/chat/completions`, { method: "POST", headers, body, signal })).text();
  } catch {
    // some are cut, some leave
  }
}

/** Several clients at once. */
async function load(base, count) {
  const numbers = Array.from({ length: count }, (_, index) => index);
  await Promise.all(Array.from({ length: 6 }, async () => {
    for (let number = numbers.shift(); number !== undefined; number = numbers.shift()) {
      const [model, key] = ROWS[number % ROWS.length];
      await ask(base, model, key, number % 3 === 0, number % 17 === 16 ? AbortSignal.timeout(30) : undefined);
    }
  }));
}

export default async function scenario(browser) {
  await load(browser.base, 84);
  const page = await browser.open();
  await page.getByLabel("Key").fill(DASHBOARD);
  await page.keyboard.press("Enter");
  await page.getByText("Live", { exact: true }).waitFor();
  await page.evaluate(() => { window.sameDocument = true; });
  const background = new AbortController();
  const slow = ask(browser.base, SLOW, ALICE, true, background.signal);

  await sameNumbers(page);
  await everyView(browser, page);
  await page.setViewportSize({ width: 1280, height: 900 });
  await walk(page);
  await live(browser, page);
  await logins(browser, page);
  await slow;
  assert.ok(await page.evaluate(() => window.sameDocument), "nothing has loaded the page again");
  browser.judge();
  await restartAndDrain(browser, page);
}

/** What the page says of each group is what the API says. */
async function sameNumbers(page) {
  for (const by of ["provider", "model", "client", "status"]) {
    await page.evaluate((name) => { location.hash = `#/overview?by=${name}`; }, by);
    await until(`groups by ${by}`, async () => (await page.locator(".groups h2").innerText()) === `By ${by}`);
    await until(`the numbers by ${by}`, async () => {
      const { totals, groups } = await page.evaluate((name) => fetch(`v1/dashboard/usage?by=${name}`).then((answer) => answer.json()), by);
      assert.equal(await tile(page, "Requests"), String(totals.requests));
      assert.equal(await tile(page, "Failed"), `${((100 * totals.failed) / (totals.answered + totals.failed)).toFixed(0)}%`);
      assert.equal(await tile(page, "Tokens out"), new Intl.NumberFormat("en").format(totals.tokens_out));
      const rows = await page.locator(".groups tbody tr").evaluateAll((all) => all.map((row) => row.children[1].textContent));
      assert.deepEqual(rows, groups.map(({ requests }) => String(requests)).sort((one, other) => other - one));
      return true;
    });
  }
}

async function everyView(browser, page) {
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
    for (const [size, width, height] of SIZES) {
      await page.setViewportSize({ width, height });
      for (const view of size === "wall" ? VIEWS.slice(0, 5) : VIEWS) {
        await page.evaluate((hash) => { location.hash = `#/${hash}`; }, view);
        await page.locator(`.view-${view.split("?")[0]}`).waitFor();
        if (view.startsWith("overview")) await until("charts", async () => (await page.locator(".uplot").count()) >= 5);
        if (view.startsWith("overview")) await until("groups", async () => (await page.locator(".groups h2").innerText()) === (view.includes("model") ? "By model" : "By status"));
        if (view === "sessions") await page.getByText("voice").waitFor();
        if (view === "logs") await page.locator(".log tbody tr").nth(5).waitFor();
        const name = `crowd-${view.replace("?by=", "-")}-${size}-${scheme}`;
        await browser.picture(page, name, false);
        const [content, room] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
        assert.ok(content <= room, `${name} is ${content} wide in ${room}`);
        if (size === "desk") await browser.audit(page, name);
      }
    }
  }
}

/** From view to view with the keyboard alone; what has the focus is seen. */
async function walk(page) {
  await page.evaluate(() => { location.hash = "#/overview"; });
  await page.locator(".view-overview").waitFor();
  await page.evaluate(() => document.activeElement?.blur());
  for (const view of ["Providers", "Models", "Sessions", "Logs"]) {
    await page.getByRole("link", { name: "Skip to content" }).focus();
    await until(`the link to ${view}`, async () => {
      await page.keyboard.press("Tab");
      return page.evaluate((name) => document.activeElement?.textContent?.startsWith(name), view);
    });
    assert.notEqual(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), "none");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: view, level: 1 }).waitFor();
    await page.keyboard.press("Tab");
    assert.ok(await page.evaluate(() => document.activeElement.closest("#content")), "the focus goes on in the view");
  }
}

async function live(browser, page) {
  await page.getByRole("link", { name: "Requests" }).click();
  const table = page.getByRole("region", { name: "Requests, newest first" });
  const leaves = new AbortController();
  const row = ask(browser.base, `${SLOW}+sim-cached-1`, OTHER, true, leaves.signal);
  await table.locator("tr", { hasText: `${SLOW}+sim-cached-1` }).filter({ hasText: "In progress" }).waitFor();
  leaves.abort();
  await row;
  await table.locator("tr", { hasText: `${SLOW}+sim-cached-1` }).filter({ hasText: "499" }).waitFor();
  await page.getByRole("link", { name: "Providers" }).click();
  for (let times = 0; times < 3; times += 1) await ask(browser.base, "broken/gpt-x", ALICE, false);
  await page.getByRole("article", { name: "broken" }).getByText("Failing").waitFor();
  assert.equal(await page.locator(".card h2").first().innerText(), "broken", "what fails comes first");
}

async function logins(browser, page) {
  await page.getByRole("link", { name: "Logins" }).click();
  const home = page.getByRole("article", { name: "home" });
  await home.getByRole("button", { name: "Log in with a code" }).click();
  await home.locator(".user-code").waitFor();
  const other = await page.context().newPage(); // it shows what is under way elsewhere
  await other.goto(`${browser.base}/ui#/logins`);
  await other.getByRole("article", { name: "home" }).locator(".user-code").waitFor();
  await other.close();
  await browser.picture(page, "crowd-login-device");
  await browser.audit(page, "a login by code");
  const address = await home.getByRole("link").getAttribute("href");
  await fetch(`${address}&account=alice`);
  await home.locator(".flow-state").getByText("logged in as alice@sim.example").waitFor();
  const work = page.getByRole("article", { name: "work" });
  await work.getByRole("button", { name: "Log in with a browser" }).click();
  const authorize = await work.getByRole("link").getAttribute("href");
  const answer = await fetch(`${authorize}&account=bob`, { redirect: "manual" });
  await browser.picture(page, "crowd-login-browser");
  await work.getByLabel(/Paste the code/).fill(answer.headers.get("location"));
  await work.getByRole("button", { name: "Finish" }).click();
  await work.locator(".flow-state").getByText("logged in as bob@sim.example").waitFor();
  await browser.picture(page, "crowd-logins-done");
}

async function restartAndDrain(browser, page) {
  browser.expectCuts();
  browser.expect(/^503 /);
  await page.getByRole("link", { name: "Overview" }).click();
  const restarted = fetch(`${CONTROL}/restart`, { method: "POST" });
  await page.getByText("Live", { exact: true }).waitFor({ state: "hidden" });
  await restarted;
  await page.getByText("Live", { exact: true }).waitFor({ timeout: SLOWEST * 1000 });
  await until("no notice", async () => !(await page.locator("#notices").getByText("The gateway cannot be reached.").isVisible()), SLOWEST);
  assert.ok(await page.evaluate(() => window.sameDocument), "the cookie is still good");
  const before = Number((await tile(page, "Requests")).replace(",", ""));
  assert.ok(before > 84, "what was counted before is still there");
  await ask(browser.base, "fast", ALICE, false);
  await until("one more", async () => Number((await tile(page, "Requests")).replace(",", "")) > before, SLOWEST);

  const last = ask(browser.base, SLOW, ALICE, true);
  await until("the last request", async () => (await tile(page, "In progress")) === "1");
  await fetch(`${CONTROL}/drain`, { method: "POST" });
  await page.getByText("The gateway is draining").waitFor();
  await browser.picture(page, "crowd-drain", false);
  await last;
  await page.locator("#notices").getByText("The gateway cannot be reached.").waitFor({ timeout: SLOWEST * 1000 });
  await browser.picture(page, "crowd-gone", false);
}
