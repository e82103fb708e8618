/** Tiles, charts and groups say what the API says, for each way of breaking it down. */

import assert from "node:assert/strict";
import { at, event, history, profiles } from "../samples.mjs";
import { columns, tile, until } from "../browser.mjs";

const add = (values) => values.reduce((total, value) => total + Number(value.replace(/[$,]/g, "")), 0);

export default async function scenario(browser) {
  await browser.stub("profiles", profiles());
  await browser.stub("events", history());
  const page = await browser.open();
  await until("the totals", async () => (await tile(page, "Requests")) === "40");
  assert.equal(await tile(page, "Failed"), "20%");
  assert.equal(await tile(page, "Rejected"), "0");
  assert.equal(await tile(page, "Client left"), "0");
  assert.equal(await tile(page, "Tokens in"), "40K");
  assert.equal(await tile(page, "Tokens out"), "4,000");
  assert.equal(await tile(page, "Cache hits"), "25%");
  assert.equal(await tile(page, "Cost"), "$0.40");
  assert.equal(await tile(page, "In progress"), "3");

  const requests = await columns(page, "Requests");
  assert.equal(add(requests.Answered), 32);
  assert.equal(add(requests.Failed), 8);
  const tokens = await columns(page, "Tokens");
  assert.deepEqual(Object.values(tokens).map(add), [10_000, 30_000, 4000]);
  await browser.picture(page, "overview-tables");

  for (const [by, first] of [["Route", "chat"], ["Client", "alice"], ["Model", "gpt-x"], ["Provider", "main"]]) {
    await page.getByRole("button", { name: by, exact: true }).click();
    await until(`groups by ${by}`, async () => (await columns(page, "Requests"))[first] !== undefined);
    const all = by === "Route" ? 40 : 20;
    assert.equal(add((await columns(page, "Requests"))[first]), all);
    await until("the group's row", async () => String(all) === (await page.locator(".groups tbody tr", { hasText: first }).locator("td").nth(1).innerText()));
  }
  const groups = page.locator(".groups");
  await groups.getByRole("button", { name: "Name" }).click();
  assert.match(await groups.locator("tbody tr").first().innerText(), /^other/);
  assert.equal(await groups.locator('th[aria-sort="descending"]').innerText(), "Name");

  // the step that is under way is drawn, too
  await page.locator('.chart button[aria-pressed="true"]').first().click();
  await browser.stub("events", Array.from({ length: 30 }, (_, index) => event(500 + index)));
  await until("the totals", async () => (await tile(page, "Requests")) === "70");
  await until("a bar at the end", () => page.locator(".chart canvas").first().evaluate((canvas) => {
    const over = canvas.parentElement.querySelector(".u-over");
    const scale = canvas.width / canvas.clientWidth;
    const width = Math.ceil((over.clientWidth / 61) * scale);
    const right = (over.offsetLeft + over.clientWidth) * scale;
    const { data } = canvas.getContext("2d").getImageData(right - width * 2, (over.offsetTop + over.clientHeight) * scale - 5, width * 2, 3);
    return data.some((value, index) => index % 4 === 3 && value === 255);
  }));

  // a part of a chart that is marked becomes the range, and the browser's own way back leaves it
  const plot = await page.locator(".chart .u-over").first().boundingBox();
  await page.mouse.move(plot.x + plot.width * 0.6, plot.y + 50);
  await page.mouse.down();
  await page.mouse.move(plot.x + plot.width * 0.9, plot.y + 50, { steps: 5 });
  await page.mouse.up();
  await until("a custom range", () => page.url().includes("since="));
  assert.equal(await page.getByRole("button", { name: "Custom" }).getAttribute("aria-pressed"), "true");
  await page.goBack();
  await until("the hour again", async () => (await page.getByRole("button", { name: "1 h", exact: true }).getAttribute("aria-pressed")) === "true");

  await lastLabel(browser, page);

  await browser.stub("set", { source: "memory" });
  await page.getByText("Set hooks.sqlite.path in the configuration").waitFor();
}

/** The label at the right end of the time axis is not cut off: it ends before the canvas does. */
async function lastLabel(browser, page) {
  const midnight = new Date().setHours(-24, 0, 0, 0); // yesterday, when nothing else was
  await browser.stub("events", [24, 1].map((hours) => event(900 + hours, { time: at(midnight - hours * 3_600_000 + 60_000) })));
  await page.evaluate((hash) => { location.hash = hash; }, `#/overview?since=${midnight / 1000 - 86_400}&until=${midnight / 1000}`);
  await until("a day of two requests", async () => (await tile(page, "Requests")) === "2");
  const painted = (left) => page.locator(".chart canvas").first().evaluate((canvas, part) => {
    const over = canvas.parentElement.querySelector(".u-over");
    const top = Math.ceil((over.offsetTop + over.clientHeight + 2) * canvas.width / canvas.clientWidth);
    const from = part < 1 ? Math.floor(canvas.width * part) : canvas.width - part;
    const { data } = canvas.getContext("2d").getImageData(from, top, canvas.width - from, canvas.height - top);
    return data.some((value, index) => index % 4 === 3 && value > 0);
  }, left);
  await until("a label at midnight", () => painted(0.9));
  assert.equal(await painted(2), false, "the last label is cut off");
}
