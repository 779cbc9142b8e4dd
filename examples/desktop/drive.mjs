// Buys something in the shop, by DevTools: `npm install puppeteer-core`, then
// `warren forward shop 9222` in one terminal and `node drive.mjs` in another.
import puppeteer from "puppeteer-core"

const browser = await puppeteer.connect({browserURL: "http://127.0.0.1:9222", defaultViewport: null, protocolTimeout: 600_000})
const [page] = await browser.pages()
page.setDefaultTimeout(300_000)
await page.goto("http://127.0.0.1:8000/")
await page.click("button")
console.log(await page.title())
await browser.disconnect()
