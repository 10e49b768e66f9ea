/** The commands. Each is loaded only when it is used: a start costs what its command costs, and no more. */
import type { Commands } from "./command.ts";

/** By name, in the order in which help shows them. */
export const COMMANDS: Commands = {
  run: async () => (await import("./run.ts")).run,
  status: async () => (await import("./status.ts")).status,
  list: async () => (await import("./status.ts")).list,
  history: async () => (await import("./history.ts")).history,
  break: async () => (await import("./break.ts")).breaks,
  doctor: async () => (await import("./doctor.ts")).doctor,
  flock: async () => (await import("./flock.ts")).flock,
  completion: async () => (await import("./completion.ts")).completion,
  man: async () => (await import("./man.ts")).man,
  help: async () => (await import("./help.ts")).help,
  version: async () => (await import("./help.ts")).version,
};
