/** Workers as browsers have them, which in Deno are another thing than those of `node:worker_threads`. */
import { assertEquals } from "@std/assert";
import { Lock } from "../../mod.ts";
import { test } from "../harness.ts";

test("Lock of a web Worker in Deno is free when that was terminated", async ({ path }) => {
  const code = `import { Lock } from ${JSON.stringify(new URL("../../mod.ts", import.meta.url))};
    const lock = globalThis.lock = new Lock(${JSON.stringify(path())});
    self.postMessage(lock.tryAcquire());`;
  const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  const worker = new Worker(url, { type: "module" });
  try {
    const held = new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = ({ message }) => reject(new Error(message));
    });
    const lock = new Lock(path(), { onStale() {} });
    assertEquals([await held, lock.tryAcquire()], [true, false]);
    worker.terminate();
    await lock.acquire({ timeout: 10_000 });
    lock.release();
  } finally {
    worker.terminate();
    URL.revokeObjectURL(url);
  }
});
