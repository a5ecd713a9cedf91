import { createHash } from 'node:crypto';

/** Bytes of a SHA-256. */
const HASH_BYTES = 32;

/** A file with its hash in front, after a line that says what it is, so that no damage to it goes unnoticed. */
export function sealed(kind: string, content: Uint8Array): Uint8Array {
  return Buffer.concat([headOf(kind), hashOf(content), content]);
}

/** What {@link sealed} was given; `null` if the file is of another kind, or not as it was written. */
export function unsealed(kind: string, file: Uint8Array): Uint8Array | null {
  const head = headOf(kind);
  const content = file.subarray(head.length + HASH_BYTES);
  const isWhole = Buffer.concat([head, hashOf(content)]).equals(file.subarray(0, head.length + HASH_BYTES));
  return isWhole ? content : null;
}

function headOf(kind: string): Buffer {
  return Buffer.from(`${kind}\n`);
}

function hashOf(content: Uint8Array): Buffer {
  return createHash('sha256').update(content).digest();
}

/** The same for a file of JSON, which stays one: the hash is its first field, of all that follows. */
export function sealedJson(value: object): string {
  const rest = `${JSON.stringify(value).slice(1)}\n`;
  return `{"sha256":"${createHash('sha256').update(rest).digest('hex')}",${rest}`;
}

/** How a file of {@link sealedJson} begins. */
const JSON_HEAD = /^\{"sha256":"([0-9a-f]{64})",$/;
const JSON_HEAD_BYTES = 77;

/** The text of the object that {@link sealedJson} was given; `null` if it is not as it was written. */
export function unsealedJson(file: Uint8Array): string | null {
  const [, hash] = JSON_HEAD.exec(Buffer.from(file.subarray(0, JSON_HEAD_BYTES)).toString('latin1')) ?? [];
  const rest = file.subarray(JSON_HEAD_BYTES);
  return hash === createHash('sha256').update(rest).digest('hex') ? `{${Buffer.from(rest).toString('utf8')}` : null;
}
