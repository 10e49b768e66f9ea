/**
 * Text that another user may have chosen, for people: a path, a command line, a
 * label, a mount. As it is, it could write over a line of the terminal (control
 * characters), show a name as another (bidirectional ones), or end a line.
 */

/**
 * All of Unicode's category C, which has the control, bidirectional, invisible and unassigned characters (U+0080 to
 * U+009F are escape sequences too), and the two separators of lines that are in another category.
 */
const HIDDEN = /[\p{C}\u2028\u2029]/gu;

const numbers = (character: string): string =>
  character.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");

/** The text with each of those as its number, such as `\u001b`: the form that JSON has, so that JSON stays the same JSON. */
export const printable = (text: string): string => text.replace(HIDDEN, numbers);

/** A text as it stands in a message: in quotes, so that blanks and line breaks show. */
export const quote = (text: string): string => printable(JSON.stringify(text));

/**
 * A path, or another word of a command, as it stands where a person may copy it to a shell: as it is, or in single
 * quotes, within which a shell expands nothing. A file may be called `$(reboot).lock`.
 */
export const shown = (word: string): string =>
  /^[\p{L}\p{N}/._@%+=:,~-]+$/u.test(word) ? word : `'${printable(word).replaceAll("'", `'\\''`)}'`;
