/** Run one scenario: node run.mjs NAME BASE; the variables are MGW_BROWSER, MGW_CHROMIUM and MGW_SCREENSHOTS. */

import { Browser } from "./browser.mjs";

const [name, base] = process.argv.slice(2);
const { default: scenario } = await import(`./scenarios/${name}.mjs`);
const browser = new Browser(base, process.env.MGW_SCREENSHOTS);
await browser.start();
try {
  await scenario(browser);
  browser.judge();
} finally {
  await browser.stop();
}
