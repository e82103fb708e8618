/** What takes the gateway long is asked for rarely, and nothing is while nobody sees the page. */

import assert from "node:assert/strict";
import { event, history, profiles } from "../samples.mjs";
import { tile, until } from "../browser.mjs";

const SLOW = 0.5;
const REST = 5;

export default async function scenario(browser) {
  await browser.stub("profiles", profiles());
  await browser.stub("events", history());
  const page = await browser.open("#/overview?by=model");
  await until("the totals", async () => (await tile(page, "Requests")) === "40");
  await browser.stub("set", { slow: SLOW });
  const asked = [];
  page.on("request", (request) => { if (request.url().includes("/v1/dashboard/")) asked.push([Date.now(), request.url()]); });
  const ended = [];
  page.on("requestfinished", (request) => { if (request.url().includes("/usage")) ended.push(Date.now()); });

  let number = 100;
  await until("three queries, while requests end all the time", async () => {
    await browser.stub("events", [event(number)]);
    number += 1;
    return ended.length >= 3;
  }, 40);
  const usage = asked.filter(([, url]) => url.includes("/usage"));
  for (const index of [1, 2]) {
    const pause = usage[index][0] - ended[index - 1];
    assert.ok(pause >= (REST * SLOW * 1000) * 0.9, `after a query of ${SLOW} s the page waited ${pause} ms`);
  }
  const before = usage.length;
  await page.getByRole("button", { name: "Client", exact: true }).click();
  await until("what somebody wants to see, at once", async () => asked.filter(([, url]) => url.includes("by=client")).length > 0, 2);
  assert.ok(asked.filter(([, url]) => url.includes("/usage")).length > before);

  await until("the answer", async () => (await page.locator(".groups h2").innerText()) === "By client");
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { get: () => window.isHidden, configurable: true });
    window.isHidden = true;
    document.dispatchEvent(new Event("visibilitychange"));
  });
  asked.length = 0;
  await browser.stub("events", [event(9000)]);
  await page.waitForTimeout(1000 * (REST * SLOW + 6));
  assert.deepEqual(asked, [], "a hidden page asks for nothing");
  await page.evaluate(() => {
    window.isHidden = false;
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await until("it asks again", () => asked.some(([, url]) => url.includes("/usage")));
}
