/** All of it can be done with the keyboard: the way is visible, and nothing holds the focus. */

import assert from "node:assert/strict";
import { history, profiles } from "../samples.mjs";
import { tile, until } from "../browser.mjs";

const SEEN = () => {
  const element = document.activeElement;
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  const name = element.getAttribute("aria-label") || element.textContent.trim() || element.id || element.tagName;
  return { name, tag: element.tagName, outline: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2, visible: box.width > 0 && box.height > 0 };
};

export default async function scenario(browser) {
  await browser.stub("profiles", profiles());
  await browser.stub("events", history());
  const page = await browser.open();
  await until("the totals", async () => (await tile(page, "Requests")) === "40");
  await page.keyboard.press("Tab");
  assert.equal((await page.evaluate(SEEN)).name, "Skip to content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "content");

  await page.reload();
  await until("the totals", async () => (await tile(page, "Requests")) === "40");
  const names = [];
  for (let presses = 0; presses < 80; presses += 1) {
    await page.keyboard.press("Tab");
    const seen = await page.evaluate(SEEN);
    if (seen.tag === "BODY") break;
    assert.ok(seen.visible && (seen.outline || seen.tag === "MAIN"), `the focus is not to be seen on ${seen.name}`);
    names.push(seen.name);
  }
  for (const wanted of ["Overview", "Logs", "Status", "Client", "7 d", "Custom", "Requests as a table", "Groups", "Name"]) {
    assert.ok(names.includes(wanted), `${wanted} cannot be reached: ${names}`);
  }

  await page.getByRole("link", { name: "Overview" }).focus();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Requests", level: 1 }).waitFor();
  assert.equal(await page.title(), "Requests · mgw");

  await page.goto(`${browser.base}/ui#/overview`);
  await page.getByRole("button", { name: "Custom" }).focus();
  await page.keyboard.press("Enter");
  assert.ok(await page.getByLabel("From", { exact: true }).isVisible());
  await page.keyboard.press("Escape");
  assert.equal((await page.evaluate(SEEN)).name, "Custom");

  await page.getByRole("button", { name: /^Theme: system/ }).click();
  await page.getByRole("button", { name: /^Theme: light/ }).click();
  await page.reload();
  await page.getByRole("button", { name: /^Theme: dark/ }).waitFor();
  assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme), "dark");
}
