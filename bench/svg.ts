/** bench.svg: ratios as bars, on a logarithmic axis. */
import { short } from "./numbers.ts";
import type { Section } from "./part.ts";

interface Bar {
  readonly label: string;
  readonly value: number;
  readonly ours: boolean;
}

interface Chart {
  readonly title: string;
  readonly bars: readonly Bar[];
}

const WIDTH = 860, LEFT = 300, RIGHT = 70, STEP = 20, HEAD = 44, FOOT = 26;
const OURS = "#0b62c4", THEIRS = "#8a8f98", LINE = "#d5d8dd", TEXT = "#1c1e21";

const escape = (text: string) =>
  text.replace(/[&<>]/g, (each) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[each] ?? each);
const text = (x: number, y: number, content: string, more = "") =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${more}>${escape(content)}</text>`;

/** What is drawn, of the parts that were run. */
export function charts(sections: ReadonlyMap<number, Section>): Chart[] {
  const pick = (title: string, part: number, pattern: RegExp): Chart => ({
    title,
    bars: (sections.get(part)?.rows ?? [])
      .filter(({ key, ratio }) => pattern.test(key) && ratio !== undefined && Number.isFinite(ratio) && ratio > 0)
      .map(({ who, what, ratio, ours }) => ({
        label: `${who}: ${what.replace(/, made anew each time$/, "")}`,
        value: ratio!,
        ours,
      })) // `!`: filtered
      .toSorted((a, b) => a.value - b.value),
  });
  return [
    pick(
      "Acquire and release, made anew each time: times the floor in C (less is better)",
      1,
      /tryAcquire-new| acquire-new|sync-new| new$/,
    ),
    pick(
      "A refused try: times open, one failing flock, close in C (less is better)",
      2,
      /refused-new|refused-sync|refused-async| refused$/,
    ),
    pick("Hand-over after a release: times a process that waits in the kernel (less is better)", 3, / release$/),
    pick("8 processes, increments a second: share of flock(2) in C (more is better)", 4, / 8$/),
  ].filter(({ bars }) => bars.length > 0);
}

function draw({ title, bars }: Chart, top: number): string {
  const values = bars.map(({ value }) => value);
  const from = Math.floor(Math.log10(Math.min(...values, 1))), to = Math.ceil(Math.log10(Math.max(...values, 10)));
  const x = (value: number) => LEFT + (Math.log10(value) - from) / (to - from) * (WIDTH - LEFT - RIGHT);
  const bottom = top + HEAD + bars.length * STEP;
  const lines = Array.from({ length: to - from + 1 }, (_, i) => 10 ** (from + i)).map((value) =>
    `<line x1="${x(value).toFixed(1)}" x2="${x(value).toFixed(1)}" y1="${top + HEAD - 8}" y2="${bottom}" ` +
    `stroke="${value === 1 ? TEXT : LINE}"/>${text(x(value), bottom + 14, `${value} ×`, 'text-anchor="middle"')}`
  );
  const drawn = bars.map(({ label, value, ours }, i) => {
    const y = top + HEAD + i * STEP;
    const [a, b] = [x(1), x(value)].toSorted((one, other) => one - other);
    return text(LEFT - 8, y + 12, label, `text-anchor="end"${ours ? ' font-weight="bold"' : ""}`) +
      `<rect x="${a.toFixed(1)}" y="${y + 2}" width="${Math.max(b - a, 1).toFixed(1)}" height="${STEP - 6}" ` +
      `fill="${ours ? OURS : THEIRS}"/>` + text(b + 4, y + 12, `${short(value)} ×`);
  });
  return [text(16, top + 22, title, 'font-size="14" font-weight="bold"'), ...lines, ...drawn].join("\n");
}

const height = ({ bars }: Chart) => HEAD + bars.length * STEP + FOOT;

/** The picture. The axis of each chart is logarithmic, its bars begin at 1 ×. */
export function svg(sections: ReadonlyMap<number, Section>): string {
  let top = 40;
  const parts = charts(sections).map((chart) => {
    const drawn = draw(chart, top);
    top += height(chart) + 12;
    return drawn;
  });
  return `<!-- deno-fmt-ignore-file -->
<!-- Drawn by \`deno task bench\`; never edited. -->
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${top}" width="${WIDTH}" height="${top}" font-family="Helvetica, Arial, 'DejaVu Sans', sans-serif" font-size="11" fill="${TEXT}">
<rect width="${WIDTH}" height="${top}" fill="#ffffff"/>
${text(16, 24, "holdfast is blue; bars begin at 1 ×; the axes are logarithmic")}
${parts.join("\n")}
</svg>
`;
}
