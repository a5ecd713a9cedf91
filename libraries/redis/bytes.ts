import { isUtf8 } from 'node:buffer';

// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII.
const ASCII = /^[\x00-\x7f]*$/;

/** What {@link fromBytes} makes of bytes that are no UTF-8: such a byte is a half of a surrogate pair, without the other. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII.
const ESCAPED = /^[\x00-\x7f\udc80-\udcff]*$/;
const ESCAPE = 0xdc00;

/** The last text that is ASCII: what is written to a connection is looked at twice. */
let knownAscii = '';

/** Whether a text is its own bytes. */
export function isAscii(text: string): boolean {
  if (text === knownAscii) return true;
  if (!ASCII.test(text)) return false;
  knownAscii = text;
  return true;
}

/** The UTF-8 bytes of a text, as Latin-1: what a server is sent. */
export function toBytes(text: string): string {
  if (ASCII.test(text)) return text;
  // The low bytes of its characters, which are all that Latin-1 has.
  return Buffer.from(text, ESCAPED.test(text) ? 'latin1' : 'utf8').toString('latin1');
}

/** The text that bytes are in UTF-8. What is none becomes a text that {@link toBytes} makes the same bytes of. */
export function fromBytes(bytes: string): string {
  if (ASCII.test(bytes)) return bytes;
  const buffer = Buffer.from(bytes, 'latin1');
  if (isUtf8(buffer)) return buffer.toString('utf8');
  return bytes.replaceAll(/[\x80-\xff]/g, (byte) => String.fromCharCode(ESCAPE + byte.charCodeAt(0)));
}

/** The text that a client reads from bytes: what is no UTF-8 is lost. */
export function textOf(bytes: string): string {
  return ASCII.test(bytes) ? bytes : Buffer.from(bytes, 'latin1').toString('utf8');
}
