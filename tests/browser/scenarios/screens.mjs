/** Nothing is cut off: every view with the traffic of a busy gateway, from a phone to a wide screen, in both schemes. */

import assert from "node:assert/strict";
import { busy, busyProfiles } from "../samples.mjs";
import { until } from "../browser.mjs";

const VIEWS = ["overview", "overview?by=client", "overview?by=model&range=24h", "requests", "providers", "models", "sessions", "logs", "logins", "try"];
const WIDTHS = [[360, 740], [1280, 800], [1440, 900], [1920, 1080]];

const LASTING = ["Status", "Error", "Cost"];

/** @type {string[]} what is wrong with any view: one run tells all */
const faults = [];

/**
 * What is cut off, in the words of a failure. Text may end in an ellipsis where its `title` has the whole; a legend's
 * name has one as well.
 */
function findCutOff() {
  const found = [];
  const root = document.documentElement;
  if (root.scrollWidth > innerWidth) found.push(`the page is ${root.scrollWidth} wide in ${innerWidth}`);
  const seen = (element) => element.checkVisibility() && !element.closest(".unseen, .as-cards thead:not(.sorts)");
  const named = (element) => `${element.tagName.toLowerCase()}.${[...element.classList].join(".")} "${element.textContent.slice(0, 40)}"`;
  for (const element of document.querySelectorAll(".panel, .scroll, table, .segments, .panel-head, .heading, .tiles, .gaps, .card, .now, .facts")) {
    if (!seen(element)) continue;
    if (element.scrollWidth > element.clientWidth + 1) found.push(`${named(element)} is ${element.scrollWidth} wide in ${element.clientWidth}`);
    const { left, right } = element.getBoundingClientRect();
    if (left < -0.5 || right > innerWidth + 0.5) found.push(`${named(element)} goes from ${left} to ${right}`);
  }
  for (const element of document.querySelectorAll("#content *, .bar *")) {
    if (!seen(element) || element.scrollWidth <= element.clientWidth + 1 || element.clientWidth === 0) continue;
    const style = getComputedStyle(element);
    if (style.overflowX === "visible" || style.overflowX === "auto" || ["SELECT", "OPTION", "INPUT"].includes(element.tagName)) continue;
    const isSaid = style.textOverflow === "ellipsis" && (element.title || element.closest("[title]") || element.querySelector("[title]"));
    if (!isSaid) found.push(`${named(element)} is cut off at ${element.clientWidth} of ${element.scrollWidth}`);
  }
  return found;
}

/** Labels of charts that reach the edge of their canvas, where they are cut off. */
function findCutLabels() {
  return [...document.querySelectorAll(".uplot canvas")].filter((canvas) => canvas.checkVisibility()).flatMap((canvas) => {
    const pen = canvas.getContext("2d");
    const paints = (left, top, width, height) => pen.getImageData(left, top, width, height).data.some((value, index) => index % 4 === 3 && value > 0);
    const title = canvas.closest(".chart").querySelector("h2").textContent;
    const edges = [["left", 0, 0, 1, canvas.height], ["right", canvas.width - 1, 0, 1, canvas.height], ["top", 0, 0, canvas.width, 1], ["bottom", 0, canvas.height - 1, canvas.width, 1]];
    return edges.filter(([, ...box]) => paints(...box)).map(([edge]) => `${title}: something is cut off at its ${edge}`);
  });
}

/** Of the rows of a table that was scrolled, what shows above or through its heading. */
function findAboveHeading() {
  return [...document.querySelectorAll(".scroll:not(.as-cards)")].filter((element) => element.checkVisibility() && element.querySelector("thead")).flatMap((element) => {
    element.scrollTop = 37.5;
    if (element.scrollTop === 0) return [];
    const box = element.getBoundingClientRect();
    const head = element.querySelector("thead th").getBoundingClientRect();
    if (box.top < 60 || box.top > innerHeight - 60) element.scrollIntoView({ block: "center" });
    const { top } = element.getBoundingClientRect();
    const at = [0.5, head.height / 2].map((offset) => document.elementFromPoint(box.left + 30, top + offset));
    element.scrollTop = 0;
    return at.filter((hit) => hit && element.contains(hit) && !hit.closest("thead")).map((hit) => `${hit.tagName} "${hit.textContent.slice(0, 20)}" above the heading of ${element.getAttribute("aria-label")}`);
  });
}

async function go(page, view) {
  await page.evaluate((hash) => { location.hash = `#/${hash}`; }, view);
  await page.locator(`.view-${view.split("?")[0]}`).waitFor();
  const by = /by=(\w+)/.exec(view)?.[1] ?? "status";
  if (view.startsWith("overview")) await until("charts", async () => (await page.locator(".uplot").count()) === 6);
  if (view.startsWith("overview")) await until("groups", async () => (await page.locator(".groups h2").innerText()) === `By ${by}` && (await page.locator(".groups tbody tr").count()) > 3);
  if (view === "requests") await page.locator("button.row").nth(20).waitFor();
  if (view === "providers" || view === "models") await page.locator(".numeric strong.bad").first().waitFor();
}

export default async function scenario(browser) {
  await browser.stub("profiles", busyProfiles());
  await browser.stub("events", busy());
  for (const scheme of ["light", "dark"]) {
    for (const [width, height] of WIDTHS) {
      const page = await browser.open("", { width, height, scheme, reducedMotion: "reduce" });
      await until("charts", async () => (await page.locator(".uplot").count()) === 6);
      await browser.stub("events", busy(40, 30_000).map((event, index) => ({ ...event, request_id: `${scheme}-${width}-${index}` })));
      for (const view of VIEWS) await look(browser, page, view, `${width}-${scheme}`);
      await go(page, "requests");
      await page.locator("button.row").nth(3).click();
      await page.locator(".detail").waitFor();
      await check(browser, page, `detail-${width}-${scheme}`);
      if (width === 1280) await rightColumns(page);
      await page.context().close();
    }
  }
  assert.deepEqual(faults, []);
  await layout(browser);
  await blame(browser);
}

async function look(browser, page, view, where) {
  await go(page, view);
  await check(browser, page, `${view.replace(/\W/g, "-")}-${where}`);
}

async function check(browser, page, name) {
  await browser.picture(page, `screen-${name}`);
  for (const find of [findCutOff, findCutLabels, findAboveHeading]) faults.push(...(await page.evaluate(find)).map((fault) => `${name}: ${fault}`));
}

/** Of the columns of requests, the ones that tell how it went, why it failed and what it cost stay. */
async function rightColumns(page) {
  await page.keyboard.press("Escape");
  const heads = () => page.locator(".view-requests .scroll").last().locator("thead th:visible").allInnerTexts();
  for (const name of LASTING) await until(`the column ${name}`, async () => (await heads()).includes(name));
}

/** Where things stand: charts three a row on a wide screen, the groups below them over the whole width, cards on a phone. */
async function layout(browser) {
  const page = await browser.open("#/overview?by=client", { width: 1920, height: 1080 });
  await until("charts", async () => (await page.locator(".uplot").count()) === 6);
  const charts = await Promise.all((await page.locator(".chart").all()).map((chart) => chart.boundingBox()));
  assert.equal(new Set(charts.map(({ y }) => Math.round(y))).size, 2, "two rows of charts");
  const groups = await page.locator(".groups").boundingBox();
  const bottom = Math.max(...charts.map(({ y, height }) => y + height));
  assert.ok(groups.y >= bottom, "the groups stand below the charts");
  const width = Math.max(...charts.map(({ x, width: wide }) => x + wide)) - Math.min(...charts.map(({ x }) => x));
  assert.ok(Math.abs(groups.width - width) <= 1, `the groups are ${groups.width} wide, the charts ${width}`);
  assert.equal(await page.locator(".groups thead th:visible").count(), 14, "every column has room");

  await page.setViewportSize({ width: 360, height: 740 });
  await page.locator(".groups .as-cards").waitFor();
  assert.equal(await page.locator(".groups tbody td:visible").count() % 14, 0, "a card has all values");
  const [first, second] = await Promise.all([0, 1].map((index) => page.locator(".groups tbody tr").nth(index).boundingBox()));
  assert.ok(first.height > 100 && second.y >= first.y + first.height, "rows are cards, one below the other");
  assert.equal(await page.getByRole("table").last().getByRole("row").first().isVisible(), true, "cards are still rows to a screen reader");
  await page.context().close();
}

/** Who is to blame for what, what the figures lack, and whose keys are meant. */
async function blame(browser) {
  const page = await browser.open("#/overview?by=client", { width: 1440, height: 900 });
  await page.getByText("Gateway key 9f2c41d07be3").first().waitFor();
  const colour = (locator) => locator.first().evaluate((element) => getComputedStyle(element).color);
  const red = await colour(page.locator(".groups .bad"));
  const tile = (label) => page.locator(".tile", { has: page.locator(`dt:text-is("${label}")`) }).locator(".value");
  for (const label of ["Rejected", "Client left"]) assert.notEqual(await colour(tile(label)), red, `${label} is red`);
  assert.equal(await colour(tile("Failed")), red);
  assert.equal(await page.getByRole("group", { name: "Group by" }).isVisible(), true);
  assert.equal(await page.getByText("Group by", { exact: true }).isVisible(), true, "the switch has a label");
  const gap = (label) => page.locator(".gap", { hasText: label });
  await gap("Without a cost").getByText(/^Add a row to prices for local\/qwen3/).waitFor();
  await gap("Streams without token counts").getByText("include_usage").waitFor();

  await page.getByRole("button", { name: "Model", exact: true }).click();
  const legend = page.locator(".chart", { has: page.locator('h2:text-is("Cost")') }).locator(".legend li", { hasText: "local/qwen3" });
  await until("a cost that nobody knows is a dash in the chart, as it is in the table", async () => /–$/.test(await legend.innerText()));
  assert.match(await page.locator(".groups tr", { hasText: "local/qwen3" }).innerText(), /\t–\t/);
  await page.getByRole("button", { name: "Provider key", exact: true }).click();
  await page.getByText("main: key 0123456789ab").first().waitFor();
  await page.getByRole("button", { name: "Error", exact: true }).click();
  await page.locator(".groups").getByText("rate_limit_exceeded").waitFor();

  const quiet = page.locator("nav .quiet");
  await until("what is not set up comes last", async () => (await quiet.allInnerTexts()).map((text) => text.trim()).join() === "Logins");
  await browser.stub("profiles", busyProfiles({ prices: false, sessions: 0, providers: busyProfiles().providers.map((one) => ({ ...one, capabilities: ["text"] })) }));
  await until("sessions, too", async () => (await quiet.allInnerTexts()).map((text) => text.trim()).join() === "Sessions,Logins");
  await gap("Without a cost").getByText(/^No prices are configured/).waitFor();
  await page.context().close();
}
