/**
 * Numbers as util-linux reads them, which is as C does: strtoimax(3), strtold(3),
 * and sizes such as `10K`. A number that does not fit is another error than a text that is no number.
 */

/** Why a text is no number: it is none, or none that fits. */
export type NoNumber = "invalid" | "range";

/** A 32-bit integer in decimal. */
export function integer(text: string): number | NoNumber {
  const match = /^[ \t\n\v\f\r]*([+-]?\d+)$/.exec(text);
  if (!match) return "invalid";
  const number = Number(match[1]);
  return number >= -(2 ** 31) && number < 2 ** 31 ? number : "range";
}

const DECIMAL = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;
const HEXADECIMAL = /^([+-]?)0x([\da-f]*)\.?([\da-f]*)(?:p([+-]?\d+))?$/i;

/** Seconds, as a floating-point number; in hexadecimal too, and `inf` and `nan`. */
export function seconds(text: string): number | NoNumber {
  const word = text.replace(/^[ \t\n\v\f\r]+/, "");
  const hexadecimal = HEXADECIMAL.exec(word);
  if (hexadecimal) {
    const [, sign, whole, part, exponent = "0"] = hexadecimal;
    if (whole + part === "") return "invalid";
    const digits = [...whole + part].reduce((sum, digit) => sum * 16 + parseInt(digit, 16), 0);
    return (sign === "-" ? -1 : 1) * digits * 2 ** (Number(exponent) - 4 * part.length);
  }
  const special = /^([+-]?)(?:inf(?:inity)?|(nan(?:\(\w*\))?))$/i.exec(word);
  if (special) return special[2] ? NaN : special[1] === "-" ? -Infinity : Infinity;
  if (!DECIMAL.test(word)) return "invalid";
  // A long double goes to 10^4932, far beyond what a timer takes.
  const exponent = Number(/e([+-]?\d+)$/i.exec(word)?.[1] ?? 0);
  return Math.abs(exponent) > 4940 && /[1-9]/.test(word.replace(/e.*/i, "")) ? "range" : Number(word);
}

const UNITS = "KMGTPEZY";

/** A number of bytes: `4096`, `0x10`, `1.5K`, `1KiB` (1024), `1KB` (1000). */
export function size(text: string): number | NoNumber {
  const match = /^[ \t\n\v\f\r]*\+?(?:(0x[\da-f]+)|(\d+)(\.\d+)?)(?:([KMGTPEZY])(iB|B)?)?$/i.exec(text);
  if (!match) return "invalid";
  const [, hexadecimal, whole, part = "", unit, suffix = ""] = match;
  if (part !== "" && !unit) return "invalid";
  const base = suffix.toUpperCase() === "B" ? 1000 : 1024;
  const number = Number(hexadecimal ?? whole + part) * base ** (unit ? UNITS.indexOf(unit.toUpperCase()) + 1 : 0);
  return number > Number.MAX_SAFE_INTEGER ? "range" : Math.trunc(number);
}
