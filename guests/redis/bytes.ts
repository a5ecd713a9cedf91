import { isUtf8 } from 'node:buffer';

// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII.
const ASCII = /^[\x00-\x7f]*$/;

/** The UTF-8 bytes of a text, as Latin-1: what a server is sent. */
export function toBytes(text: string): string {
  return ASCII.test(text) ? text : Buffer.from(text, 'utf8').toString('latin1');
}

/** The text that bytes are in UTF-8; what is none stays as it is. */
export function fromBytes(bytes: string): string {
  if (ASCII.test(bytes)) return bytes;
  const buffer = Buffer.from(bytes, 'latin1');
  return isUtf8(buffer) ? buffer.toString('utf8') : bytes;
}
