/** The contract of the platform matrix: what a group of places gives. */

/** What became of the behaviour tests in one place, in one runtime. */
export interface Row {
  /** Such as `NFS v4.2`. What comes before the first comma and blank is its line in the README's table. */
  readonly place: string;
  /** Such as `Deno without FFI`; several with commas. */
  readonly runtime: string;
  readonly passed: number;
  readonly failed: number;
  /** Why it was not run, or not all of it. */
  readonly notRun?: string;
  /** What a reader should know of it. */
  readonly remark?: string;
}

/** How a group is to be run. */
export interface Circumstances {
  /** All of it; else what fits into CI, in seconds. */
  readonly long: boolean;
  /** A directory of its own. */
  readonly dir: string;
  /** If there are any, only places whose names begin so: a group that takes long leaves the others out. */
  readonly places?: readonly string[];
}

/** Whether a place is to be run. */
export const isWanted = (name: string, { places }: Circumstances): boolean =>
  places?.some((each) => name.startsWith(each)) ?? true;

/** Sets up its places, one after the other, runs the behaviours there, and takes everything down again. */
export type Group = (circumstances: Circumstances) => Promise<Row[]>;
