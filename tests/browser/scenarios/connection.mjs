/** A gateway that is away is told of, and the page goes on by itself when it is back. */

import assert from "node:assert/strict";
import { event, profiles } from "../samples.mjs";
import { tile, until } from "../browser.mjs";

export default async function scenario(browser) {
  await browser.stub("profiles", profiles());
  await browser.stub("events", [event(1)]);
  const page = await browser.open();
  await until("the totals", async () => (await tile(page, "Requests")) === "1");
  await page.getByText("Live", { exact: true }).waitFor();
  browser.expectCuts();
  await browser.stub("set", { up: false });
  await page.getByText("The gateway cannot be reached.").waitFor();
  await page.getByText("Offline", { exact: true }).waitFor();
  assert.equal(await tile(page, "Requests"), "1");
  await browser.picture(page, "offline");

  await browser.stub("set", { up: true, draining: true });
  await browser.stub("events", [event(2)]);
  await until("the notice to go", async () => !(await page.getByText("The gateway cannot be reached.").isVisible()), 40);
  await page.getByText("Live", { exact: true }).waitFor();
  await until("new totals", async () => (await tile(page, "Requests")) === "2", 40);
  await page.getByText("The gateway is draining").waitFor();
}
