/**
 * The locks that are put to the test, asked the same way: ours, two from npm,
 * and a naive one, in which the harness must find the fault.
 *
 * Each is `(path, options) => ({ acquire(limit): Promise<boolean>, release() })`.
 * `acquire` is false where the lock was still held after `limit` milliseconds.
 */
import { existsSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import process from "node:process";

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** One try after another. `attempt` is true, or false for "held"; what it throws ends the wait. */
const polling = (attempt) => async (limit) => {
  const deadline = performance.now() + limit;
  for (;;) {
    if (await attempt()) return true;
    if (performance.now() >= deadline) return false;
    await pause(1 + 3 * Math.random());
  }
};

const KINDS = {
  holdfast: ({ Lock }) => (path, options) => {
    const lock = new Lock(path, options);
    return {
      async acquire(limit) {
        try {
          await lock.acquire({ timeout: limit });
          return true;
        } catch (error) {
          if (error.name === "LockTimeoutError") return false;
          throw error;
        }
      },
      release: () => lock.release(),
    };
  },

  /** https://www.npmjs.com/package/proper-lockfile; 2 s is the shortest `stale` that it takes. */
  "proper-lockfile": ({ default: { lock } }) => (path) => {
    let release;
    return {
      acquire: polling(async () => {
        try {
          release = await lock(path, { realpath: false, stale: 2000, onCompromised: () => {} });
          return true;
        } catch (error) {
          if (error.code === "ELOCKED") return false;
          throw error;
        }
      }),
      release: () => release(),
    };
  },

  /** https://www.npmjs.com/package/pidlockfile */
  pidlockfile: ({ default: { lock, unlock } }) => (path) => ({
    acquire: polling(() =>
      new Promise((resolve, reject) =>
        lock(path, (error) => {
          // EEXIST: another was faster. ENOENT: another has just unlinked the same dead owner's file.
          if (!error) resolve(true);
          else if (/already acquired/.test(error.message) || /EEXIST|ENOENT/.test(error.code)) resolve(false);
          else reject(error);
        })
      )
    ),
    release: () => new Promise((resolve, reject) => unlock(path, (error) => error ? reject(error) : resolve())),
  }),

  /** What people write: it exists, its owner is dead, so unlink it and create it again. */
  naive: () => (path) => ({
    acquire: polling(() => {
      try {
        if (existsSync(path)) {
          try {
            process.kill(Number(readFileSync(path, "utf8")), 0);
            return false;
          } catch (error) {
            if (error.code !== "ESRCH") return false;
          }
          unlinkSync(path);
        }
        writeFileSync(path, String(process.pid), { flag: "wx" });
        return true;
      } catch (error) {
        if (/EEXIST|ENOENT/.test(error.code)) return false;
        throw error;
      }
    }),
    release: () => unlinkSync(path),
  }),

  /** The other thing people write: it exists, so it is held, and a dead owner's is held for ever. */
  marker: () => (path) => ({
    acquire: polling(() => {
      try {
        writeFileSync(path, "", { flag: "wx" });
        return true;
      } catch (error) {
        if (error.code === "EEXIST") return false;
        throw error;
      }
    }),
    release: () => unlinkSync(path),
  }),
};

/** @param {string} kind @param {string} module its URL */
export const lockKind = async (kind, module) => KINDS[kind](module === "none" ? {} : await import(module));
