/** Random numbers that a seed brings back: a round that went wrong can be planned again. */

export class Random {
  #state: number;

  /** `stream` tells apart what is drawn from one seed: round 17 is the same, whether 16 others came before or none. */
  constructor(seed: number, stream = 0) {
    this.#state = (seed ^ Math.imul(stream + 1, 0x9e3779b1)) >>> 0;
    for (let i = 0; i < 4; i++) this.next(); // neighbouring seeds are not to have neighbouring first numbers
  }

  /** From 0 to 1, without 1 (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  between(low: number, high: number): number {
    return low + this.next() * (high - low);
  }

  /** An integer from 0 to `count` - 1. */
  below(count: number): number {
    return Math.floor(this.next() * count);
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)];
  }

  /** `count` different ones. */
  sample<T>(list: readonly T[], count: number): T[] {
    const left = [...list];
    return Array.from({ length: Math.min(count, left.length) }, () => left.splice(this.below(left.length), 1)[0]);
  }

  /** 128 bits in hexadecimal. */
  nonce(): string {
    return Array.from({ length: 4 }, () => this.below(2 ** 32).toString(16).padStart(8, "0")).join("");
  }
}
