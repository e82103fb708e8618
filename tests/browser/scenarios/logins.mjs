/** Logging in at a provider, with a code and with a browser: done, refused, and called off. */

import assert from "node:assert/strict";
import { profiles } from "../samples.mjs";

export default async function scenario(browser) {
  await browser.stub("profiles", profiles());
  const page = await browser.open("#/logins");
  await page.getByRole("button", { name: "Log in with a code" }).click();
  await page.getByText("ABCD-1234").waitFor();
  assert.equal(await page.getByRole("link", { name: "provider.example" }).getAttribute("href"), "https://provider.example/device");
  await browser.picture(page, "logins-code");
  await page.reload(); // what is under way is still there
  await page.getByText("ABCD-1234").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("Canceled").waitFor();

  await page.getByRole("button", { name: "Log in with a code" }).click();
  await page.getByText("ABCD-1234").waitFor();
  const logins = [{ entry: "team", profile: "vendor", flows: ["device", "pkce"], state: "signed_in" }];
  await browser.stub("profiles", profiles({ logins }));
  await browser.stub("flow", { entry: "team", state: "complete", message: "as carol" });
  await page.getByText("as carol").waitFor();
  await page.getByRole("button", { name: "Log in again with a browser" }).click();

  browser.expect(/^400 \/v1\/dashboard\/oauth\/team$/);
  await page.getByLabel(/Paste the code/).fill("wrong");
  await page.getByRole("button", { name: "Finish" }).click();
  await page.getByRole("alert").getByText("The provider refused this code.", { exact: true }).waitFor();
  await page.getByLabel(/Paste the code/).fill("right");
  await page.getByRole("button", { name: "Finish" }).click();
  await page.locator(".flow-state").getByText("Logged in", { exact: true }).waitFor();
}
