/*
 * XXH3 with 64 bits and no seed: what Redis's `DIGEST` answers. Values are compared with it, so every bit counts; there is
 * no hurry.
 */

const SECRET = Buffer.from(
  'b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221' +
    'b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8' +
    'fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb17' +
    '0ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e',
  'hex',
);

const P32_1 = 0x9e3779b1n;
const P32_2 = 0x85ebca77n;
const P32_3 = 0xc2b2ae3dn;
const P64_1 = 0x9e3779b185ebca87n;
const P64_2 = 0xc2b2ae3d27d4eb4fn;
const P64_3 = 0x165667b19e3779f9n;
const P64_4 = 0x85ebca77c2b2ae63n;
const P64_5 = 0x27d4eb2f165667c5n;
const MIX_1 = 0x165667919e3779f9n;
const MIX_2 = 0x9fb21c651e98df25n;

const MASK_32 = 0xffffffffn;
const low64 = (value: bigint): bigint => BigInt.asUintN(64, value);
const word = (bytes: Buffer, at: number): bigint => bytes.readBigUInt64LE(at);
const half = (bytes: Buffer, at: number): bigint => BigInt(bytes.readUInt32LE(at));

function rotate(value: bigint, by: bigint): bigint {
  return low64(value << by) | (value >> (64n - by));
}

function swapBytes(value: bigint): bigint {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes.readBigUInt64BE();
}

function avalanche(value: bigint): bigint {
  const once = low64((value ^ (value >> 37n)) * MIX_1);
  return once ^ (once >> 32n);
}

/** The halves of the product, one over the other. */
function folded(a: bigint, b: bigint): bigint {
  const product = a * b;
  return low64(product) ^ (product >> 64n);
}

function upTo3(bytes: Buffer): bigint {
  const [first = 0, middle = 0, last = 0] = [bytes[0], bytes[bytes.length >> 1], bytes[bytes.length - 1]];
  const combined = BigInt(((first << 16) | (middle << 24) | last | (bytes.length << 8)) >>> 0);
  let value = combined ^ (half(SECRET, 0) ^ half(SECRET, 4));
  value = low64((value ^ (value >> 33n)) * P64_2);
  value = low64((value ^ (value >> 29n)) * P64_3);
  return value ^ (value >> 32n);
}

function upTo8(bytes: Buffer): bigint {
  const { length } = bytes;
  const combined = half(bytes, length - 4) + (half(bytes, 0) << 32n);
  let value = combined ^ (word(SECRET, 8) ^ word(SECRET, 16));
  value ^= rotate(value, 49n) ^ rotate(value, 24n);
  value = low64(value * MIX_2);
  value ^= (value >> 35n) + BigInt(length);
  value = low64(value * MIX_2);
  return value ^ (value >> 28n);
}

function upTo16(bytes: Buffer): bigint {
  const { length } = bytes;
  const low = word(bytes, 0) ^ (word(SECRET, 24) ^ word(SECRET, 32));
  const high = word(bytes, length - 8) ^ (word(SECRET, 40) ^ word(SECRET, 48));
  return avalanche(low64(BigInt(length) + swapBytes(low) + high + folded(low, high)));
}

function mix16(bytes: Buffer, at: number, secretAt: number): bigint {
  return folded(word(bytes, at) ^ word(SECRET, secretAt), word(bytes, at + 8) ^ word(SECRET, secretAt + 8));
}

function upTo128(bytes: Buffer): bigint {
  const { length } = bytes;
  let sum = BigInt(length) * P64_1;
  for (let i = Math.floor((length - 1) / 32); i >= 0; i--) {
    sum += mix16(bytes, 16 * i, 32 * i) + mix16(bytes, length - 16 * (i + 1), 32 * i + 16);
  }
  return avalanche(low64(sum));
}

const MIDDLE_START = 3;
const MIDDLE_LAST = 17;
const SECRET_MIN = 136;

function upTo240(bytes: Buffer): bigint {
  const { length } = bytes;
  let sum = BigInt(length) * P64_1;
  for (let i = 0; i < 8; i++) sum += mix16(bytes, 16 * i, 16 * i);
  sum = avalanche(low64(sum));
  for (let i = 8; i < Math.floor(length / 16); i++) sum += mix16(bytes, 16 * i, 16 * (i - 8) + MIDDLE_START);
  sum += mix16(bytes, length - 16, SECRET_MIN - MIDDLE_LAST);
  return avalanche(low64(sum));
}

const STRIPE = 64;
const STRIPES = 16;

function accumulate(sums: bigint[], bytes: Buffer, at: number, secretAt: number): void {
  for (let i = 0; i < 8; i++) {
    const value = word(bytes, at + 8 * i);
    const key = value ^ word(SECRET, secretAt + 8 * i);
    sums[i ^ 1] = low64((sums[i ^ 1] ?? 0n) + value);
    sums[i] = low64((sums[i] ?? 0n) + (key & MASK_32) * (key >> 32n));
  }
}

function long(bytes: Buffer): bigint {
  const { length } = bytes;
  const sums = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1];
  const block = STRIPE * STRIPES;
  const blocks = Math.floor((length - 1) / block);
  for (let n = 0; n < blocks; n++) {
    for (let i = 0; i < STRIPES; i++) accumulate(sums, bytes, n * block + i * STRIPE, i * 8);
    for (let i = 0; i < 8; i++) {
      const sum = sums[i] ?? 0n;
      sums[i] = low64((sum ^ (sum >> 47n) ^ word(SECRET, SECRET.length - STRIPE + 8 * i)) * P32_1);
    }
  }
  const stripes = Math.floor((length - 1 - block * blocks) / STRIPE);
  for (let i = 0; i < stripes; i++) accumulate(sums, bytes, blocks * block + i * STRIPE, i * 8);
  accumulate(sums, bytes, length - STRIPE, SECRET.length - STRIPE - 7);
  let merged = BigInt(length) * P64_1;
  for (let i = 0; i < 4; i++)
    merged += folded(
      (sums[2 * i] ?? 0n) ^ word(SECRET, 11 + 16 * i),
      (sums[2 * i + 1] ?? 0n) ^ word(SECRET, 19 + 16 * i),
    );
  return avalanche(low64(merged));
}

function hash(bytes: Buffer): bigint {
  const { length } = bytes;
  if (length > 240) return long(bytes);
  if (length > 128) return upTo240(bytes);
  if (length > 16) return upTo128(bytes);
  if (length > 8) return upTo16(bytes);
  if (length >= 4) return upTo8(bytes);
  if (length > 0) return upTo3(bytes);
  const empty = word(SECRET, 56) ^ word(SECRET, 64);
  const once = low64((empty ^ (empty >> 33n)) * P64_2);
  const twice = low64((once ^ (once >> 29n)) * P64_3);
  return twice ^ (twice >> 32n);
}

/** The digest of a value, of bytes as Latin-1, as 16 hexadecimal digits. */
export function digestOf(value: string): string {
  return hash(Buffer.from(value, 'latin1')).toString(16).padStart(16, '0');
}
