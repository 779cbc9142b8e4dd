// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// drive.mjs DRIVER ADDRESS: uses the page of a running browser through its DevTools at ADDRESS, as the programs of
// users do, and prints the page's text and the size of a picture of it as JSON.
import { chromium } from "playwright-core";
import puppeteer from "puppeteer-core";

const [driver, address] = process.argv.slice(2);
const patience = 120_000; // an emulated browser is slow

async function withPlaywright() {
  const browser = await chromium.connectOverCDP(`http://${address}`, { timeout: patience });
  const page = browser.contexts()[0].pages()[0];
  page.setDefaultTimeout(patience);
  return { text: (await page.innerText("body")).trim(), picture: (await page.screenshot({ timeout: patience })).length };
}

async function withPuppeteer() {
  const browser = await puppeteer.connect({ browserURL: `http://${address}`, defaultViewport: null, protocolTimeout: patience });
  const page = (await browser.pages())[0];
  return { text: (await page.$eval("body", (b) => b.innerText)).trim(), picture: (await page.screenshot()).length };
}

console.log(JSON.stringify(driver === "playwright" ? await withPlaywright() : await withPuppeteer()));
process.exit(0); // the browser is the VM's, and stays
