/** What goes with a hold for as long as it lasts: its place in the registry and in the contexts, and its guard. */
import type { Hold } from "../backend/contract.ts";
import { begin, end } from "./context.ts";
import { guard } from "./loss_watcher.ts";
import { forget, type Registered, remember } from "../backend/registry.ts";
import { isMainThread } from "../sys/mod.ts";

/** What the owner of a hold does about it. */
export interface Owner {
  /** It is lost, and given up. */
  lost(reason: string): void;
  /** A Worker ends in order: its process goes on, and so would the lock. It is given up, however often it was acquired. */
  abandon(): void;
  /** The process ends in order. */
  left(): void;
}

/** What this copy of the library holds: under `bun --hot` an earlier load of the program has another. */
const holdings = new Set<Holding>();

/** Whether this copy holds what goes by that token. */
export const isHeldByThisCopy = (token: string): boolean => [...holdings].some(({ hold }) => hold.token === token);

/** One hold, from its grant to its end. */
export class Holding {
  readonly hold: Hold;
  /** Since when, by the monotonic clock, in milliseconds. */
  readonly since: number;
  readonly #registered: Registered;
  readonly #unguard: () => void;
  readonly #owner: Owner;
  #ended = false;

  constructor(hold: Hold, owner: Owner, since: number) {
    this.hold = hold;
    this.since = since;
    this.#owner = owner;
    begin(hold);
    this.#registered = {
      get token() {
        return hold.token; // another one when its file was made again
      },
      leave: () => isMainThread() ? owner.left() : owner.abandon(),
    };
    remember(this.#registered);
    holdings.add(this);
    this.#unguard = guard(hold.watched, () => {
      const before = hold.token;
      this.verify();
      return hold.token !== before;
    });
  }

  /** Whether it is still held; if not, its owner has been told. */
  verify(): boolean {
    if (this.#ended) return false; // its descriptor may be another file's by now
    const reason = this.hold.verify();
    if (reason === undefined) return true;
    this.#owner.lost(reason);
    return false;
  }

  /** Forgets it; the hold itself is not touched. */
  end(): void {
    this.#ended = true;
    holdings.delete(this);
    end(this.hold);
    forget(this.#registered);
    this.#unguard();
  }
}
