/**
 * A rolling hash over integers: two lanes of 32 bits, each a multiply and rotate. Not cryptographic; it tells whether
 * two runs were the same, on every engine.
 */
export class RollingHash {
  private a = 0x9e3779b9 | 0;
  private b = 0x85ebca6b | 0;

  /** Takes in one integer of at most 53 bits. */
  add(value: number): void {
    const low = value | 0;
    const a = Math.imul(this.a ^ low, 0xcc9e2d51);
    this.a = (a << 15) | (a >>> 17);
    const b = Math.imul(this.b + low, 0x1b873593);
    this.b = (b << 13) | (b >>> 19);
    if (low !== value) this.add((value - (low >>> 0)) / 4294967296);
  }

  /** Takes in a time and three small integers at once; each lane gets another combination of them. */
  addEvent(at: number, kind: number, x: number, y: number): void {
    const low = at | 0;
    const high = low === at ? 0 : (at - (low >>> 0)) / 4294967296;
    const a = Math.imul(this.a ^ low ^ Math.imul(kind, 0x27d4eb2f), 0xcc9e2d51) + Math.imul(x, 0x165667b1);
    this.a = ((a << 15) | (a >>> 17)) ^ y;
    const b = Math.imul((this.b + low) ^ Math.imul(y, 0x9e3779b1), 0x1b873593) + Math.imul(kind + high, 0x85ebca77);
    this.b = ((b << 13) | (b >>> 19)) ^ x;
  }

  /** 32 bits of the digest, as an integer. */
  value(): number {
    return mix(this.b ^ mix(this.a));
  }

  /** 16 hexadecimal digits. */
  digest(): string {
    return hex(mix(this.a)) + hex(mix(this.b ^ this.a));
  }

  reset(): void {
    this.a = 0x9e3779b9 | 0;
    this.b = 0x85ebca6b | 0;
  }
}

/** The finalizer of MurmurHash3: every bit of the input changes half of the output. */
export function mix(lane: number): number {
  let h = lane ^ (lane >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return h ^ (h >>> 16);
}

/** Eight hexadecimal digits. */
export function hex(lane: number): string {
  return (lane >>> 0).toString(16).padStart(8, '0');
}
