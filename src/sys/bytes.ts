/**
 * Text that the system gave us is bytes: names, arguments and the environment may be no UTF-8. Here a string has one
 * character a byte, so that it comes back as it was, and a pattern may look at it.
 */

/** One character a byte; UTF-8 and all else goes through unchanged. */
export type ByteString = string;

/** U+FFFD stands for bytes that were no UTF-8, and a lone surrogate becomes it: as a path it would be another file's. */
export const isInexact = (text: string): boolean => /[\ufffd\p{Surrogate}]/u.test(text);

/** With its NUL, for C. */
export const c = (text: ByteString): Uint8Array => Uint8Array.from(`${text}\0`, (character) => character.charCodeAt(0));

/** Not TextDecoder's latin1, which is windows-1252. */
export function byteString(bytes: Uint8Array): ByteString {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}

/** What a string in UTF-16 is as bytes. */
export const fromText = (text: string): ByteString => byteString(new TextEncoder().encode(text));

/** The string as a runtime reads it: what is no UTF-8 becomes U+FFFD. */
export const toText = (bytes: ByteString): string =>
  new TextDecoder("utf-8", { ignoreBOM: true }).decode(c(bytes).subarray(0, -1));
