/**
 * Our lock and the peers', asked the same way, each as its documentation has it.
 *
 * A kind is given its module and makes `{ forms, refused, wait }`:
 * - `forms`: by name, `(path) => deed`; a deed acquires and releases once, with
 *   nobody else there. `sync` or `async`; `new`: everything made anew each
 *   time; `again`: with an object or an open file that is kept.
 * - `refused`: the same; a deed is a try that must be refused, and throws if it is not.
 * - `wait`: `(path) => ({ acquire, release })`, as it waits of itself; one that
 *   cannot is tried again every 1 to 4 ms.
 */
import { closeSync, openSync, writeFileSync } from "node:fs";

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const DAY = 86_400_000;

/** A callback as a promise. */
const call = (fn, ...args) =>
  new Promise((resolve, reject) => fn(...args, (error, value) => error ? reject(error) : resolve(value)));

function mustBeRefused(got) {
  if (got) throw new Error("was not refused");
}

/** A deed that is refused by an error of a kind. */
const refusedBy = (pattern, deed) => () => {
  let result;
  try {
    result = deed();
  } catch (error) {
    if (pattern.test(`${error.code} ${error.message}`)) return;
    throw error;
  }
  const judge = (error) => {
    if (!pattern.test(`${error.code} ${error.message}`)) throw error;
  };
  if (result instanceof Promise) return result.then(() => mustBeRefused(true), judge);
  mustBeRefused(true);
};

/** Waits by one try after another. */
const polling = (held, attempt) => async () => {
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (!held.test(`${error.code} ${error.message}`)) throw error;
    }
    await pause(1 + 3 * Math.random());
  }
};

const touched = (path) => (writeFileSync(path, "", { flag: "a" }), path);

export const KINDS = {
  holdfast({ Lock }) {
    const quiet = { onStale() {} };
    const make = (path) => new Lock(path, quiet);
    const nothing = () => {};
    const DEEDS = {
      tryAcquire(lock) {
        if (!lock.tryAcquire()) throw new Error("held");
        lock.release();
      },
      acquireSync: (lock) => lock.acquireSync().release(),
      runSync: (lock) => lock.runSync(nothing),
      acquire: async (lock) => (await lock.acquire()).release(),
      run: (lock) => lock.run(nothing),
    };
    const forms = {};
    for (const [name, deed] of Object.entries(DEEDS)) {
      forms[`${name}-new`] = (path) => () => deed(make(path));
      forms[`${name}-again`] = (path, lock = make(path)) => () => deed(lock);
    }
    return {
      forms,
      refused: {
        new: (path) => () => mustBeRefused(make(path).tryAcquire()),
        again: (path, lock = make(path)) => () => mustBeRefused(lock.tryAcquire()),
      },
      wait(path, lock = make(path)) {
        return { acquire: () => lock.acquire(), release: () => lock.release() };
      },
    };
  },

  /** Its default, `realpath: true`, wants the file to exist. */
  "proper-lockfile"({ default: { lock, lockSync } }) {
    return {
      forms: {
        "sync-new": (path) => (touched(path), () => lockSync(path)()),
        "async-new": (path) => (touched(path), async () => await (await lock(path))()),
      },
      refused: {
        sync: (path) => (touched(path), refusedBy(/ELOCKED/, () => lockSync(path))),
        async: (path) => (touched(path), refusedBy(/ELOCKED/, () => lock(path))),
      },
      wait(path) {
        let release;
        touched(path);
        const acquire = polling(/ELOCKED/, async () => release = await lock(path));
        return { acquire, release: () => release() };
      },
    };
  },

  lockfile({ default: { lock, unlock, lockSync, unlockSync } }) {
    return {
      forms: {
        "sync-new": (path) => () => (lockSync(path), unlockSync(path)),
        "async-new": (path) => async () => (await call(lock, path, {}), await call(unlock, path)),
      },
      refused: {
        sync: (path) => refusedBy(/EEXIST/, () => lockSync(path)),
        async: (path) => refusedBy(/EEXIST/, () => call(lock, path, {})),
      },
      // Every 100 ms, its `pollPeriod`.
      wait: (path) => ({ acquire: () => call(lock, path, { wait: DAY }), release: () => unlockSync(path) }),
    };
  },

  "fs-ext"({ default: { flock, flockSync } }) {
    const open = (path) => openSync(path, "a");
    return {
      forms: {
        "sync-new": (path) => () => {
          const fd = open(path);
          flockSync(fd, "exnb");
          closeSync(fd);
        },
        "sync-again": (path, fd = open(path)) => () => (flockSync(fd, "exnb"), flockSync(fd, "un")),
        "async-new": (path) => async () => {
          const fd = open(path);
          await call(flock, fd, "exnb");
          closeSync(fd);
        },
        "async-again":
          (path, fd = open(path)) => async () => (await call(flock, fd, "exnb"), await call(flock, fd, "un")),
      },
      refused: {
        sync: (path) => () => {
          const fd = open(path);
          try {
            refusedBy(/EAGAIN/, () => flockSync(fd, "exnb"))();
          } finally {
            closeSync(fd);
          }
        },
      },
      wait(path, fd = open(path)) {
        return { acquire: () => call(flock, fd, "ex"), release: () => flockSync(fd, "un") };
      },
    };
  },

  /** fcntl(2) locks, in libuv's threads. */
  "os-lock"({ default: { lock, unlock } }) {
    const open = (path) => openSync(path, "a");
    const now = { exclusive: true, immediate: true };
    return {
      forms: {
        "async-new": (path) => async () => {
          const fd = open(path);
          await lock(fd, now);
          closeSync(fd);
        },
        "async-again": (path, fd = open(path)) => async () => (await lock(fd, now), await unlock(fd)),
      },
      refused: {
        async: (path) => async () => {
          const fd = open(path);
          await refusedBy(/EACCES|EAGAIN|EBUSY|temporarily/i, () => lock(fd, now))();
          closeSync(fd);
        },
      },
      wait(path, fd = open(path)) {
        return { acquire: () => lock(fd, { exclusive: true }), release: () => unlock(fd) };
      },
    };
  },

  "@jujulego/pid-file"({ PidFile }) {
    const create = async (file) => {
      if (!await file.create()) throw new Error("ELOCKED");
    };
    return {
      forms: {
        "async-new": (path) => async () => {
          const file = new PidFile(path);
          await create(file);
          await file.delete();
        },
        "async-again": (path, file = new PidFile(path)) => async () => (await create(file), await file.delete()),
      },
      refused: { async: (path) => refusedBy(/ELOCKED/, () => create(new PidFile(path))) },
      wait(path, file = new PidFile(path)) {
        // Of two who find it there at once one is refused by the lock that it judges the file under, with ELOCKED.
        // ENOENT: it was deleted meanwhile.
        return { acquire: polling(/ELOCKED|ENOENT/, () => create(file)), release: () => file.delete() };
      },
    };
  },

  pidlockfile({ default: { lock, unlock } }) {
    return {
      forms: { "async-new": (path) => async () => (await call(lock, path), await call(unlock, path)) },
      refused: { async: (path) => refusedBy(/already acquired/, () => call(lock, path)) },
      wait: (path) => ({
        // EEXIST: another was faster. ENOENT: another has just unlinked it.
        acquire: polling(/already acquired|EEXIST|ENOENT/, () => call(lock, path)),
        release: () => call(unlock, path),
      }),
    };
  },

  /** Its shortest wait is its poll, 500 ms: it has no try that only tries. */
  "cross-process-lock"({ lock, unlock }) {
    return {
      forms: { "async-new": (path) => (touched(path), async () => await (await lock(path))()) },
      refused: {},
      wait: (path) => (touched(path), {
        acquire: () => lock(path, { waitTimeout: DAY, lockTimeout: DAY }),
        release: () => unlock(path),
      }),
    };
  },

  rwlockfile({ RWLockfile }) {
    return {
      forms: {
        "sync-new": (path) => () => {
          const lock = new RWLockfile(path);
          lock.addSync("write");
          lock.removeSync("write");
        },
        "sync-again": (path, lock = new RWLockfile(path)) => () => (lock.addSync("write"), lock.removeSync("write")),
        "async-new": (path) => async () => {
          const lock = new RWLockfile(path);
          await lock.add("write");
          await lock.remove("write");
        },
        "async-again":
          (path, lock = new RWLockfile(path)) => async () => (await lock.add("write"), await lock.remove("write")),
      },
      refused: {
        sync: (path) => refusedBy(/ELOCK/, () => new RWLockfile(path).addSync("write")),
        async: (path) => refusedBy(/ELOCK/, () => new RWLockfile(path).add("write", { timeout: -1 })),
      },
      wait(path, lock = new RWLockfile(path)) {
        return { acquire: () => lock.add("write", { timeout: DAY }), release: () => lock.remove("write") };
      },
    };
  },

  "Deno.FsFile"() {
    const { Deno } = globalThis;
    const open = (path) => Deno.openSync(path, { write: true, create: true });
    const lock = (file) => {
      if (!file.tryLockSync(true)) throw new Error("ELOCKED");
    };
    return {
      forms: {
        "sync-new": (path) => () => {
          const file = open(path);
          lock(file);
          file.close();
        },
        "sync-again": (path, file = open(path)) => () => (lock(file), file.unlockSync()),
        "async-new": (path) => async () => {
          const file = await Deno.open(path, { write: true, create: true });
          await file.lock(true);
          file.close();
        },
        "async-again": (path, file = open(path)) => async () => (await file.lock(true), await file.unlock()),
      },
      refused: {
        sync: (path) => () => {
          const file = open(path);
          mustBeRefused(file.tryLockSync(true));
          file.close();
        },
      },
      wait(path, file = open(path)) {
        return { acquire: () => file.lock(true), release: () => file.unlockSync() };
      },
    };
  },
};
