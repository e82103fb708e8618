/** The pictures of the documents, of a gateway with traffic (tools/screenshots). */

import { join } from "node:path";
import { until } from "../browser.mjs";

const { MGW_DASHBOARD_KEY: KEY, MGW_PICTURES: FOLDER, MGW_SECONDS: SECONDS } = process.env;
const LOOKS = { deviceScaleFactor: 2, timezoneId: "UTC", locale: "en-GB", reducedMotion: "reduce" };
/** Much of what a browser shows by default is wider, or looks of one system alone. */
const FONT = "Inter, 'Liberation Sans', Arial, sans-serif";
const MARGIN = 12;

async function signIn(browser, hash, looks) {
  const page = await browser.open(hash, { ...LOOKS, ...looks });
  await page.getByLabel("Key").fill(KEY);
  await page.keyboard.press("Enter");
  await page.getByText("Live", { exact: true }).waitFor();
  await page.evaluate((font) => { document.body.style.fontFamily = font; }, FONT);
  return page;
}

export default async function scenario(browser) {
  const overview = await signIn(browser, "#/overview?range=24h&by=model", { width: 1240, height: 1000, scheme: "light" });
  const requests = await signIn(browser, "#/requests", { width: 1440, height: 1080, scheme: "dark" });
  await until("charts", async () => (await overview.locator(".uplot").count()) >= 5);
  await overview.waitForTimeout(Number(SECONDS) * 1000);

  // whole charts, and none that is cut off
  const { y, height } = await overview.locator(".chart").first().boundingBox();
  await overview.screenshot({ path: join(FOLDER, "dashboard.png"), clip: { x: 0, y: 0, width: 1240, height: y + height + MARGIN } });

  await requests.getByRole("button", { name: "Pause" }).click();
  await requests.locator("tr", { hasText: "data-science" }).filter({ hasText: "claude-sonnet-5" }).filter({ hasText: "200" }).first().click();
  await requests.locator(".detail", { hasText: "logit_bias" }).waitFor(); // among the dropped fields
  await requests.evaluate(() => scrollTo(0, 0));
  await requests.mouse.move(0, 0);
  await requests.screenshot({ path: join(FOLDER, "dashboard-requests.png") });
}
