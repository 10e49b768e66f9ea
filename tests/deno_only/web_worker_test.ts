/** Workers as browsers have them, which in Deno are another thing than those of `node:worker_threads`. */
import { assertEquals } from "@std/assert";
import { Lock } from "../../mod.ts";
import { test } from "../support/harness.ts";

for (const backend of ["flock", "pidfile"] as const) {
  test(`Lock by ${backend} of a web Worker in Deno that closed itself is free, although that is told to no listener`, async ({ path }) => {
    const code = `import { Lock } from ${JSON.stringify(new URL("../../mod.ts", import.meta.url))};
      const lock = globalThis.lock = new Lock(${JSON.stringify(path())}, { backend: "${backend}" });
      self.postMessage(lock.tryAcquire());
      self.onmessage = () => self.close();`;
    const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    const worker = new Worker(url, { type: "module" });
    try {
      const held = await new Promise((resolve, reject) => {
        worker.onmessage = ({ data }) => resolve(data);
        worker.onerror = ({ message }) => reject(new Error(message));
      });
      assertEquals(held, true);
      worker.postMessage("close");
      const lock = new Lock(path(), { backend, onStale() {} });
      await lock.acquire({ timeout: 10_000 });
      lock.release();
    } finally {
      worker.terminate();
      URL.revokeObjectURL(url);
    }
  });
}

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
