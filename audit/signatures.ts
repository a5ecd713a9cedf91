import crypto, { type BinaryToTextEncoding } from 'node:crypto';

/*
 * Requests that are signed: nobody but their sender can sign one, so that in a file that checks signatures every signature is the same,
 * and that is what its requests have.
 */

/** The header that has it, by its name. */
const HEADER = /signature|hmac|digest/i;
const CHECKS = /['"`][\w-]*(?:signature|hmac)[\w-]*['"`]/i;
const MADE = /\bcreateHmac\(\s*['"`](\w+)['"`]/;
const BYTE = 0xa5;

/** The signature that a request has in its header, as files read it; `null` where they check none. */
export function signatureFor(texts: readonly string[]): string | null {
  const text = texts.find((it) => MADE.test(it) && CHECKS.test(it));
  if (text === undefined) return null;
  const [, algorithm = ''] = MADE.exec(text) ?? [];
  const encoding = /['"]base64['"]/.test(text) ? 'base64' : 'hex';
  const [prefix = ''] = /(?<=['"`])(?:sha\d+|v\d)=/.exec(text) ?? [];
  return prefix + digestOf(algorithm, encoding);
}

/** Whether a header, or a property with its name, has the signature. */
export function isSignature(name: string): boolean {
  return HEADER.test(name);
}

function digestOf(algorithm: string, encoding?: BinaryToTextEncoding): string | Buffer {
  const bytes = Buffer.alloc(crypto.createHash(algorithm).digest().length, BYTE);
  return encoding === undefined ? bytes : bytes.toString(encoding);
}

/** What stands for `node:crypto` in a file that checks signatures. */
export function withOneSignature(module: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const createHmac = (algorithm: string): object => {
    const hmac = { update: () => hmac, digest: (encoding?: BinaryToTextEncoding) => digestOf(algorithm, encoding) };
    return hmac;
  };
  return { ...module, createHmac, default: { ...crypto, createHmac } };
}
