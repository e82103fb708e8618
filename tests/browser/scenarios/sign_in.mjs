/** A wrong key is told, the right one leads to the view that was asked for, and signing out back again. */

import assert from "node:assert/strict";
import { profiles } from "../samples.mjs";
import { until } from "../browser.mjs";

export default async function scenario(browser) {
  await browser.stub("profiles", profiles());
  await browser.stub("set", { key: "right-key" });
  const page = await browser.open("#/providers");
  await page.getByLabel("Key").fill("wrong-key");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").filter({ hasText: "does not give access" }).waitFor();
  assert.equal(await page.getByLabel("Key").getAttribute("aria-invalid"), "true");
  await browser.picture(page, "sign-in-refused");

  await page.getByLabel("Key").fill("right-key");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Providers", level: 1 }).waitFor();
  assert.ok(!(await page.content()).includes("right-key"));

  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in to the dashboard" }).waitFor();

  // a session that ends while the page is open leads here as well
  await page.getByLabel("Key").fill("right-key");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Providers", level: 1 }).waitFor();
  browser.expect(/^401 \/v1\/dashboard\//);
  await page.context().clearCookies();
  await until("the sign-in page", () => page.getByLabel("Key").isVisible());
}
