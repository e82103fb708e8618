/** The requests have a past: it is there after a reload, page by page, by id, by filters of the address, and only once. */

import assert from "node:assert/strict";
import { week } from "../past.mjs";
import { at, event, profiles } from "../samples.mjs";
import { until } from "../browser.mjs";

const DAY = 86_400_000;

/** A page with words for what the scenarios look at. */
async function requests(browser, hash, more) {
  const page = await browser.open(hash, more);
  const rows = page.getByRole("region", { name: "Requests, newest first" }).locator("tbody tr");
  const keys = () => rows.evaluateAll((all) => all.map((row) => row.dataset.row));
  const details = page.getByRole("complementary", { name: "Request details" });
  const end = page.locator(".list-end");
  const shows = (number) => until(`${number} rows, and the end of the list`, async () => (await rows.count()) === number && !(await end.innerText()).includes("Loading"));
  return { page, rows, keys, details, end, shows };
}

const toTheEnd = (page) => page.getByRole("region", { name: "Requests, newest first" }).evaluate((region) => { region.scrollTop = region.scrollHeight; });

async function fillsItselfAndPages(browser) {
  const { page, rows, keys, end, shows } = await requests(browser, "#/requests");
  await shows(101);
  assert.equal(await rows.first().getAttribute("data-row"), "r1");
  assert.match(await rows.first().innerText(), /In progress/);
  await page.reload();
  await shows(101);
  await page.getByRole("button", { name: "Load older" }).evaluate((button) => button.click()); // without a scroll
  await shows(201);
  await toTheEnd(page);
  await shows(301);
  const all = await keys();
  assert.equal(new Set(all).size, all.length);
  const times = await rows.locator("time").evaluateAll((found) => found.map((time) => time.dateTime));
  assert.deepEqual(times.slice(1), [...times.slice(1)].sort().reverse());

  await browser.stub("events", [event("fresh", { time: at(Date.now()) })]);
  await page.getByRole("button", { name: "1 new" }).waitFor();
  assert.equal(await rows.count(), 301, "a reader of old rows keeps the place");
  await page.getByRole("button", { name: "1 new" }).click();
  await shows(302);
  assert.equal(await rows.nth(1).getAttribute("data-row"), "request-fresh");

  while (!(await end.innerText()).includes("Show older requests")) {
    const before = await rows.count();
    await toTheEnd(page);
    await until("a further page", async () => (await rows.count()) > before);
  }
  assert.ok((await rows.count()) <= 1001);
  const oldest = (await keys()).at(-1);
  await page.getByRole("button", { name: "Show older requests" }).click();
  await until("what is older", async () => (await keys())[0] === oldest);
  assert.match(page.url(), /until=/);
  await page.context().close();
}

async function findsAnIdOfLastWeek(browser) {
  const [id, upstream] = ["req-of-last-week", "provider's own id"];
  await browser.stub("past", [event("old", { request_id: id, upstream_request_id: upstream, time: at(Date.now() - 7 * DAY), status: "upstream_error", http_status: 529, error: "upstream_5xx", error_message: "<b>Overloaded</b>\nsince noon" })]);
  for (const text of [`X-Gateway-Request-Id: ${id}`, ` ${upstream} `]) {
    const { page, details, shows } = await requests(browser, "#/requests?range=15m&client=nobody");
    await shows(0);
    await page.getByLabel("Find a request by ID").fill(text);
    await page.keyboard.press("Enter");
    await shows(1);
    await details.getByText(id, { exact: true }).waitFor();
    await details.getByText("The provider failed.").waitFor();
    assert.equal(await details.locator("blockquote").innerText(), "<b>Overloaded</b>\nsince noon");
    await page.reload();
    await details.getByText(id, { exact: true }).waitFor();
    const link = await details.getByRole("link", { name: "Link to this request" }).getAttribute("href");
    await page.context().close();
    const other = await requests(browser, link);
    await other.details.getByText(id, { exact: true }).waitFor();
    await other.page.context().close();
  }
  const { page, shows, end } = await requests(browser, "#/requests?id=nothing-has-it");
  await shows(0);
  assert.match(await end.innerText(), /No request has this ID/);
  await page.getByRole("button", { name: "Clear filters" }).click();
  await shows(101);
  await page.context().close();
}

async function keepsFiltersInTheAddress(browser) {
  const { page, rows, shows, end } = await requests(browser, "#/requests");
  await shows(101);
  await page.getByRole("button", { name: "7 d" }).click();
  await page.getByLabel("Client", { exact: true }).fill("alice");
  await page.keyboard.press("Enter");
  const chip = page.getByRole("button", { name: "Remove the filter Client: alice" });
  await chip.waitFor();
  assert.equal(await chip.evaluate((element) => element === document.activeElement), true);
  await page.getByLabel("Status").selectOption("5xx");
  await page.getByRole("button", { name: "Remove the filter Status: 5xx" }).waitFor();
  await until("only what was asked for", async () => (await rows.count()) > 0 && (await rows.allInnerTexts()).every((text) => text.includes("503") && text.includes("alice")));
  const [address, number] = [page.url(), await rows.count()];
  assert.match(address, /range=7d/);
  await page.reload();
  await shows(number);
  assert.equal(page.url(), address);
  const shared = await requests(browser, new URL(address).hash);
  await shared.shows(number);
  await shared.page.context().close();

  await browser.stub("events", [event("unwanted", { client: "alice" }), event("wanted", { client: "alice", status: "upstream_error", http_status: 502, error: "reset" })]);
  await shows(number + 1);
  assert.equal(await rows.first().getAttribute("data-row"), "request-wanted");

  await page.getByRole("button", { name: "Remove the filter Status: 5xx" }).click();
  await until("more rows", async () => (await rows.count()) > number + 1);
  assert.equal(await page.getByLabel("Status").evaluate((element) => element === document.activeElement), true);
  await page.goBack();
  await shows(number + 1);
  await page.getByRole("button", { name: "Clear all" }).click();
  await until("no filter", async () => (await page.locator(".chosen .chip").count()) === 0 && (await end.innerText()).includes("Load older"));
  assert.ok(page.url().endsWith("#/requests"));
  await page.context().close();
}

async function turnsWhatIsInProgressIntoItsEvent(browser) {
  const running = { request_id: "running", time: at(Date.now()), seconds: 1, dialect: "openai", route: "chat", client: "alice", model: "slow-model", transport: "http" };
  await browser.stub("progress", [running]);
  const { page, rows, keys, details, shows } = await requests(browser, "#/requests?range=1h&client=alice");
  await until("the row in progress", async () => (await keys())[0] === "running");
  const before = await rows.count();
  await rows.first().getByRole("button").click();
  await details.getByText("The request is in progress.").waitFor();
  await browser.stub("events", [event("running", { request_id: "running", time: running.time, status: "client_abort", http_status: 499, error: "client_abort" })]);
  await details.getByText("The client left before the response was complete.").waitFor();
  await shows(before);
  assert.match(await rows.first().innerText(), /499/);
  await browser.stub("feed", [["usage", event("running", { request_id: "running", time: running.time })]]);
  await browser.stub("progress", []);
  await page.reload();
  await shows(before);
  assert.equal(new Set(await keys()).size, before, "what the feed and the history both bring is one row");
  await page.context().close();
}

/** A row of any view leads to the requests that it counts, in the same range of time. */
async function isWhereFiguresLead(browser) {
  const { page, rows } = await requests(browser, "#/overview?range=7d&by=client");
  const groups = page.locator(".groups");
  for (const [hash, table, name, chip] of [
    ["#/overview?range=7d&by=client", groups, "alice", "Client: alice"],
    ["#/overview?range=7d&by=provider", groups, "main", "Provider: main"],
    ["#/overview?range=7d&by=model", groups, "fast", "Model: fast"],
    ["#/overview?range=7d&by=status", groups, "Rejected", "Status: Rejected"],
    ["#/overview?range=7d&by=error", groups, "upstream_5xx", "Error: upstream_5xx"],
    ["#/providers?range=7d", page.getByRole("region", { name: "Traffic by provider" }), "main", "Provider: main"],
    ["#/models?range=7d", page.locator(".view-models"), "gpt-x", "Model: gpt-x"],
  ]) {
    await page.evaluate((to) => { location.hash = to; }, hash);
    await table.getByRole("link", { name, exact: true }).first().click();
    await page.getByRole("button", { name: `Remove the filter ${chip}` }).waitFor();
    assert.match(page.url(), /#\/requests\?range=7d&/, hash);
    await until("its requests", async () => (await rows.count()) > 0);
  }
  await page.context().close();
}

async function isUsedWithTheKeyboard(browser) {
  const { page, rows, details, shows } = await requests(browser, "#/requests?client=alice");
  await until("rows", async () => (await rows.count()) > 10);
  await page.getByRole("heading", { name: "Requests", level: 1 }).click();
  const names = [];
  for (let presses = 0; presses < 25 && !names.includes("Load older"); presses += 1) {
    await page.keyboard.press("Tab");
    const seen = await page.evaluate(() => {
      const element = document.activeElement;
      const style = getComputedStyle(element);
      return [element.getAttribute("aria-label") || element.textContent.trim(), style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2];
    });
    assert.ok(seen[1], `the focus is not to be seen on ${seen[0]}`);
    names.push(seen[0].replace("Loading…", "Load older")); // it does when the end comes in sight
  }
  for (const wanted of ["Any time", "Custom", "Find a request by ID", "Status", "Provider", "Model", "Error", "Remove the filter Client: alice", "Pause", "Requests, newest first", "Load older"]) {
    assert.ok(names.includes(wanted), `${wanted} cannot be reached: ${names}`);
  }
  await page.keyboard.press("Enter");
  await until("older rows", async () => (await rows.count()) > 110);
  await rows.locator("button.row").nth(2).focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  const id = await details.locator(".id code").first().innerText();
  assert.equal(new URLSearchParams(new URL(page.url()).hash.split("?")[1]).get("request"), id);
  await details.getByRole("button", { name: "Copy the request ID" }).focus();
  await page.keyboard.press("Enter");
  await details.getByText("Copied", { exact: true }).waitFor({ state: "attached" });
  await page.keyboard.press("Escape");
  assert.equal(await page.evaluate(() => document.activeElement.closest("tr")?.dataset.row), id);
  await page.getByLabel("Find a request by ID").focus();
  await page.keyboard.press("Control+V");
  await shows(1);
  await details.getByText(id, { exact: true }).waitFor();
  await page.context().close();
}

/** What ended just before the page was opened is not in the table of the gateway yet, and its feed has told of it. */
async function catchesUp(browser) {
  await browser.stub("events", [event("late", { client: "the-late-one" })]);
  await browser.stub("set", { late: 1 });
  const { shows, page } = await requests(browser, "#/requests?client=the-late-one");
  await shows(0);
  await browser.stub("set", { late: 0 });
  await shows(1);
  await page.context().close();
}

async function saysWhatFailedAndWherePastBegins(browser) {
  await browser.stub("set", { history: 503 });
  browser.expect(/^503 \/v1\/dashboard\/requests$/);
  const { page, end, shows } = await requests(browser, "#/requests?model=fast");
  await page.getByText("History is unavailable: Too many queries are waiting.").waitFor();
  await browser.stub("set", { history: 200, source: "memory" });
  await page.getByRole("button", { name: "Try again" }).click();
  await shows(100);
  assert.match(page.url(), /model=fast/);
  await page.evaluate(() => { location.hash = "#/requests?client=nobody"; });
  await shows(0);
  assert.match(await end.innerText(), /No requests match the filters\.[^]*last 10,000 requests since it started[^]*hooks\.sqlite/);
  await browser.stub("set", { source: "sqlite" });
  await page.context().close();
}

export default async function scenario(browser) {
  await browser.stub("profiles", profiles());
  const empty = await requests(browser, "#/requests");
  await browser.stub("progress", []);
  await empty.page.getByText("No requests yet. New ones appear here.").waitFor();
  await browser.stub("events", [event("first")]);
  await empty.shows(1);
  await empty.page.context().close();
  await browser.stub("past", week());
  await browser.stub("progress", [{ request_id: "r1", time: at(Date.now() - 4000), seconds: 4, dialect: "openai", route: "chat", client: "alice", model: "slow-model", transport: "http" }]);
  await fillsItselfAndPages(browser);
  await findsAnIdOfLastWeek(browser);
  await keepsFiltersInTheAddress(browser);
  await turnsWhatIsInProgressIntoItsEvent(browser);
  await catchesUp(browser);
  await isWhereFiguresLead(browser);
  await isUsedWithTheKeyboard(browser);
  await saysWhatFailedAndWherePastBegins(browser);
}
