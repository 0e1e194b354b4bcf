// Measures what the page promises, in a real browser: medians of five runs.
//
// usage: node inspector/test/bench.mjs

import { statSync } from "node:fs";
import { close, file, launch, openPage, pannier, path, pool, readmeExample, view } from "./support.mjs";

const RUNS = 5;
const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const line = (what, value, bar) => console.log(`${what.padEnd(58)}${value.padStart(12)}   ${bar}`);

await launch();
line("the README's example, bytes", String(statSync(readmeExample()).size), "at most 2,000,000");

const page = (count) => {
  const items = file(`pool-${count}.jsonl`, pool(count));
  const receipt = path(`pool-${count}.json`);
  pannier("pack", items, "--budget", String(count * 20), "--policy", "chat", "--receipt", receipt, "-o", path("out.txt"));
  return view(`pool-${count}.html`, receipt, items);
};

const large = page(100_000);
const [opened, longest] = [[], []];
for (let run = 0; run < RUNS; run++) {
  const started = performance.now();
  const { page, close } = await openPage(large);
  opened.push(performance.now() - started);
  await page.waitForTimeout(3000);
  longest.push(
    await page.evaluate(async () => {
      let max = 0;
      const observer = new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) max = Math.max(max, entry.duration);
      });
      observer.observe({ type: "longtask" });
      const rows = document.querySelector("#list .rows");
      for (let frame = 0; frame < 240; frame++) {
        rows.scrollTop = frame % 3 === 0 ? (rows.scrollHeight * frame) / 240 : rows.scrollTop + 137;
        await new Promise(requestAnimationFrame);
      }
      await new Promise((resolve) => setTimeout(resolve, 200));
      observer.disconnect();
      return max;
    }),
  );
  await close();
}
line("100,000 items: until they are shown, ms", median(opened).toFixed(0), "at most 3,000");
line("100,000 items: longest task while scrolling, ms (0: below 50)", median(longest).toFixed(0), "at most 50");

const medium = await openPage(page(10_000));
await medium.page.getByRole("tab", { name: "What if" }).click();
await medium.page.getByText(/The selection changes at/).waitFor({ timeout: 60_000 });
const decided = [];
for (let run = 0; run < RUNS; run++) {
  const budget = 100_000 + run * 7_001;
  await medium.page.locator("#budget").fill(String(budget));
  await medium.page.waitForSelector(`body[data-decided="${budget}"]`);
  decided.push(await medium.page.evaluate(() => window.inspector.milliseconds));
}
line("10,000 items: decide again, ms", median(decided).toFixed(0), "at most 100");
await medium.close();
await close();
