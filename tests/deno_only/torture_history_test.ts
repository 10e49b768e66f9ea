/** The checker of the torture is itself put to the test, with histories that do overlap. */
import { assertEquals } from "@std/assert";
import { Random } from "../torture/contention/random.ts";
import { test } from "../support/harness.ts";
import { History, type Mode, parseSaying, type Saying } from "../torture/history.ts";
import { audit } from "../torture/ledger.ts";

/** What a history comes to; `@N` sets the time, in milliseconds, and the window is 100. */
function check(...lines: string[]) {
  const history = new History(100);
  let at = 0;
  for (const line of lines) {
    if (line.startsWith("@")) at = Number(line.slice(1));
    else history.add(parseSaying(line) ?? fail(line), at);
  }
  history.end();
  const { wrong, documented, entered, losses } = history;
  return { wrong: wrong.map((each) => each.replace(/^entry \d+: /, "")), documented, entered, losses };
}

function fail(line: string): never {
  throw new Error(`not a saying: ${line}`);
}

const wrongIn = (...lines: string[]) => check(...lines).wrong;
const x = (who: string) => `enter ${who} exclusive`, s = (who: string) => `enter ${who} shared`;
const met = (second: string, mode: Mode, first: string, other: Mode) =>
  `${second} (${mode}) enters while ${first} (${other}) is inside`;

test("History finds nothing in stays one after the other, and in readers together", () => {
  assertEquals(check(x("a"), "leave a", x("b"), "leave b", x("a"), "leave a"), {
    ...{ wrong: [], documented: 0, entered: 3, losses: 0 },
  });
  assertEquals(wrongIn(s("a"), s("b"), "leave a", s("c"), "leave c", "leave b", x("a"), "leave a"), []);
});

test("History finds two writers, a writer among readers, and a reader beside a writer", () => {
  assertEquals(wrongIn(x("a"), x("b"), "leave a", "leave b"), [met("b", "exclusive", "a", "exclusive")]);
  assertEquals(wrongIn(s("a"), x("b"), "leave a", "leave b"), [met("b", "exclusive", "a", "shared")]);
  assertEquals(wrongIn(x("a"), s("b"), "leave b", "leave a"), [met("b", "shared", "a", "exclusive")]);
  assertEquals(wrongIn(s("a"), s("b"), x("c"), "leave a", "leave b", "leave c").length, 2);
});

test("History finds one that enters twice, leaves without having entered, or never leaves", () => {
  assertEquals(wrongIn(x("a"), x("a"), "leave a"), ["a enters twice"]);
  assertEquals(wrongIn(x("a"), "leave a", "leave a"), ["a leaves and is not inside"]);
  assertEquals(wrongIn("leave a"), ["a leaves and is not inside"]);
  assertEquals(wrongIn(x("a")), ["a never left"]);
});

test("History ends the stay of a killed holder between the blow and its funeral", () => {
  assertEquals(wrongIn(x("a"), "killing a", "dead a", x("b"), "leave b"), []);
  // The kernel frees the lock before the killer has reaped it.
  assertEquals(wrongIn(x("a"), "killing a", x("b"), "dead a", "leave b"), []);
  assertEquals(wrongIn(x("a"), "killing a", x("b"), "leave b", x("c"), "leave c", "dead a"), []);
  // A word of it, and it had been alive when the other came in.
  const meeting = [met("b", "exclusive", "a", "exclusive")];
  assertEquals(wrongIn(x("a"), "killing a", x("b"), "leave a", "dead a", "leave b"), meeting);
  // Those two are alive, whoever is killed beside them.
  assertEquals(wrongIn(x("c"), "killing c", x("a"), x("b"), "dead c", "leave a", "leave b"), meeting);
  // Inside before the blow, as long as nobody has raised a hand.
  assertEquals(wrongIn(x("a"), x("b"), "killing a", "dead a", "leave b"), meeting);
  assertEquals(wrongIn("killing a", x("a"), x("b"), "leave b", "leave a", "dead a"), meeting);
});

test("History finds what is said after a death", () => {
  assertEquals(wrongIn(x("a"), "killing a", "dead a", "leave a"), ["a says leave after its death"]);
  assertEquals(wrongIn("killing a", "dead a", x("a")), ["a says enter after its death"]);
});

test("History counts a meeting after a deletion as documented, if one of the two is told in time", () => {
  const none = { wrong: [], documented: 1 };
  const of = (...lines: string[]) => {
    const { wrong, documented } = check(...lines);
    return { wrong, documented };
  };
  assertEquals(of(x("a"), "deleted", x("b"), "lost a", "leave b"), none);
  assertEquals(of(x("a"), "deleted", x("b"), "leave b", "@90", "leave a", "lost a"), none); // by its release
  assertEquals(of(x("a"), "deleted", x("b"), "lost b", "leave a"), none);
  assertEquals(of(x("a"), "deleted", x("b"), "killing a", "dead a", "leave b"), none); // nobody can tell it
  assertEquals(of(s("a"), "deleted", x("b"), "lost a", "leave b"), none);
});

test("History finds a meeting after a deletion of which neither was told, or too late", () => {
  const told = (at: string) => wrongIn(x("a"), "deleted", x("b"), "leave b", `@${at}`, "lost a");
  assertEquals(told("100"), []);
  const neither = "b (exclusive) entered while a (exclusive) was inside, after a deletion, " +
    "and neither was told within 100 ms of that";
  assertEquals(told("101"), [neither]);
  assertEquals(wrongIn(x("a"), "deleted", x("b"), "leave b", "leave a"), [neither]);
});

test("History finds a meeting outside of the window, and a loss without a deletion", () => {
  const meeting = [met("b", "exclusive", "a", "exclusive")];
  assertEquals(wrongIn("deleted", "@101", x("a"), x("b"), "lost a", "leave b"), meeting);
  assertEquals(wrongIn(x("a"), x("b"), "deleted", "lost a", "leave b"), meeting);
  assertEquals(wrongIn(x("a"), "lost a"), ["a lost the lock, and nobody had deleted its file"]);
  assertEquals(wrongIn("deleted", "lost a"), ["a lost the lock and never had it"]);
});

test("History lets one who deleted the file itself have company, and nobody else", () => {
  assertEquals(wrongIn(x("a"), "deletes a", x("b"), "leave a", "leave b"), []);
  assertEquals(check(x("a"), "deletes a", x("b"), "leave b", "leave a", "lost a").documented, 1);
  const meeting = [met("c", "exclusive", "b", "exclusive")];
  assertEquals(wrongIn(x("a"), "deletes a", x("b"), x("c"), "leave a", "leave b", "leave c"), meeting);
  assertEquals(wrongIn(x("a"), "deletes a", "leave a", x("b"), x("c"), "leave b", "leave c"), meeting);
  assertEquals(wrongIn("deletes a"), ["a deletes the file and is not inside"]);
});

/** A lock that works, played by a seed: who is inside, and who is killed. */
function play(random: Random, steps: number): Saying[] {
  const inside = new Map<string, Mode>();
  const sayings: Saying[] = [];
  let names = 6;
  const crew = [...Array(names).keys()].map(String);
  for (let i = 0; i < steps; i++) {
    const who = random.pick(crew);
    const mode = random.pick(["exclusive", "shared"] as const);
    const others = [...inside.values()];
    if (random.next() < 0.05) {
      sayings.push({ what: "killing", who });
      inside.delete(who);
      crew[crew.indexOf(who)] = String(names++);
      sayings.push({ what: "dead", who });
    } else if (inside.has(who)) {
      inside.delete(who);
      sayings.push({ what: "leave", who });
    } else if (others.length === 0 || (mode === "shared" && others.every((each) => each === "shared"))) {
      inside.set(who, mode);
      sayings.push({ what: "enter", who, mode });
    }
  }
  for (const who of inside.keys()) sayings.push({ what: "leave", who });
  return sayings;
}

/** As slow as can be, and without any of the checker's bookkeeping. */
function overlapsNaively(sayings: readonly Saying[]): boolean {
  return sayings.some((saying, i) => {
    if (saying.what !== "enter") return false;
    const modes = new Map<string, Mode>();
    for (const each of sayings.slice(0, i)) {
      if (each.what === "enter") modes.set(each.who, each.mode);
      else if (each.what !== "deleted") modes.delete(each.who);
    }
    return [...modes.values()].some((mode) => mode === "exclusive" || saying.mode === "exclusive");
  });
}

test("History says of 2,000 histories, half of them shuffled, what a slow check says", () => {
  let shuffled = 0, found = 0;
  for (let round = 0; round < 2000; round++) {
    const random = new Random(42, round);
    const sayings = play(random, 40);
    // Two that stand side by side change places, as if the lock had let somebody in too early.
    for (let i = 0; round % 2 && i < 6; i++) {
      const at = random.below(sayings.length - 1);
      const [a, b] = [sayings[at], sayings[at + 1]];
      if (!("who" in a && "who" in b) || a.who === b.who || a.what === "killing" || a.what === "dead") continue;
      if (b.what === "killing" || b.what === "dead") continue;
      [sayings[at], sayings[at + 1]] = [b, a];
      shuffled++;
    }
    const history = new History(100);
    for (const saying of sayings) history.add(saying, 0);
    history.end();
    const expected = overlapsNaively(sayings);
    assertEquals(history.wrong.length > 0, expected, `round ${round}: ${JSON.stringify(sayings)} ${history.wrong}`);
    found += Number(expected);
  }
  console.log(`${shuffled} shuffled, ${found} with an overlap`);
  assertEquals(shuffled > 500 && found > 200, true);
});

test("parseSaying() is undefined for what is not about stays", () => {
  for (const line of ["", "ready 1.2", "enter 1.2", "enter 1.2 both", "leave", "wrong 1.2 something"]) {
    assertEquals(parseSaying(line), undefined, line);
  }
});

const ledger = (list: string, counter: number, killed: string[] = [], said: Record<string, number> = {}) =>
  audit({ list: list.replaceAll(", ", "\n"), counter, killed: new Set(killed), said: new Map(Object.entries(said)) });

test("audit() finds nothing where all adds up, and where the killed were killed in the middle", () => {
  assertEquals(ledger("1 a, 2 b, 3 a", 3, [], { a: 2, b: 1 }), []);
  assertEquals(ledger("1 a, 1 b, 2 b", 2, ["a"], { b: 2 }), []); // between the list and the counter
  assertEquals(ledger("1 a, 2 b", 1, ["b"], { a: 1 }), []); // the last of all
  assertEquals(ledger("1 a, 2 b", 2, ["b"], { a: 1 }), []); // between the counter and its word
});

test("audit() finds a lost update, a gap, a wrong counter, and one who says otherwise", () => {
  assertEquals(ledger("1 a, 1 b", 1, [], { a: 1, b: 1 }), ["entry 2 of the list is 1, by b, after 1"]);
  assertEquals(ledger("1 a, 1 b", 1, ["b"], { a: 1, b: 1 }), ["entry 2 of the list is 1, by b, after 1"]);
  assertEquals(ledger("1 a, 3 b", 3, [], { a: 1, b: 1 }), ["entry 2 of the list is 3, by b, after 1"]);
  assertEquals(ledger("1 a, 2 a", 1, [], { a: 2 }), ["the counter says 1, the list 2"]);
  assertEquals(ledger("1 a, 2 b", 2, [], { a: 1, b: 2 }), ["b says that it made 2 updates, the list has 1"]);
  assertEquals(ledger("1 a", 1, [], {}), ["a says that it made 0 updates, the list has 1"]);
  // Not its last one: it lived on after it.
  assertEquals(ledger("1 a, 1 b, 2 a", 2, ["a"], { a: 2, b: 1 }), ["entry 2 of the list is 1, by b, after 1"]);
});
