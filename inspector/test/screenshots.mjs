// Makes pictures of the views.
//
// usage: node inspector/test/screenshots.mjs FOLDER [--documents]
//
// --documents makes only those that the documents show.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { close, example, openPage, pannier, path, readmeExample, view } from "./support.mjs";

const [folder, flag] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });

const support = example();
pannier("inspect", "session", "examples/session.json", "--budget", "1200", "-f", "json", "-o", path("trace.json"));
const session = view("session.html", path("trace.json"));
const incident = readmeExample();

const select = async (page, id) => {
  await page.locator(".rows .row", { has: page.locator(".id", { hasText: new RegExp(`^${id}$`) }) }).click();
  await page.locator("#why").getByText("Selected with").waitFor();
};
const VIEWS = {
  why: [incident, 800, (page) => select(page, "shipping")],
  "what-if": [support, 760, async (page) => {
    await page.getByRole("tab", { name: "What if" }).click();
    await page.getByText(/The selection changes at/).waitFor();
    await page.locator("#budget").fill("238");
    await page.waitForSelector(".row.came-in");
  }],
  text: [incident, 460, async (page) => {
    await page.getByRole("tab", { name: "Text" }).click();
    await page.locator(".text-rows mark").first().waitFor();
  }],
  session: [session, 840, (page) => page.locator(".turn.has-break").first().click()],
};

const DOCUMENTS = new Set(["why", "what-if", "session"]);

for (const [name, [file, height, act]] of Object.entries(VIEWS)) {
  if (flag === "--documents" && !DOCUMENTS.has(name)) continue;
  for (const colorScheme of ["light", "dark"]) {
    for (const width of flag === "--documents" ? [1200] : [1200, 390]) {
      const { page, close } = await openPage(file, { width, height, colorScheme });
      await act(page);
      await page.waitForTimeout(200);
      const size = width > 1000 ? "" : "-narrow";
      await page.mouse.move(0, 0);
      await page.evaluate(() => document.activeElement?.blur());
      await page.screenshot({ path: join(folder, `inspector-${name}-${colorScheme}${size}.png`), fullPage: size !== "" });
      await close();
    }
  }
}
await close();
