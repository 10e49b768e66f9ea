/** The groups of places, in the order of the report. */
import { fuse } from "./fuse.ts";
import { local } from "./local.ts";
import { machines } from "./machines.ts";
import { network } from "./network.ts";
import { PLACES } from "./network/places.ts";
import type { Group } from "./row.ts";
import { wine } from "./wine.ts";

export interface Entry {
  readonly title: string;
  /** Before the name of a place in the README's table. */
  readonly platform: string;
  readonly run: Group;
  /** Whether two may hold one lock in a place of that name, of which its user is told. */
  readonly unsafe?: (place: string) => boolean;
  /** It has a short form, which is run unless `--long` is given. */
  readonly short?: boolean;
}

export const GROUPS: Readonly<Record<string, Entry>> = {
  local: { title: "File systems of this machine", platform: "Linux, ", run: local, short: true },
  fuse: { title: "File systems in user space (FUSE)", platform: "Linux, ", run: fuse, unsafe: () => true, short: true },
  network: {
    title: "File systems of another machine",
    platform: "Linux, ",
    run: network,
    unsafe: (place) => PLACES.some(({ name, told }) => told && name === place),
  },
  machines: { title: "Other processors, other C libraries", platform: "Linux, ", run: machines },
  wine: { title: "Windows", platform: "Windows x64: not run; ", run: wine },
};
