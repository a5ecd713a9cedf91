import { hex, mix } from './hash.js';

/**
 * Hash of a set of runs: of which runs they are, and of the trace of each. It is a sum, so that it depends neither on the
 * order in which the runs were made nor on how they were parted among workers, and a run that is counted twice or left
 * out changes it. Made to tell accidents, not attacks.
 */
export class RunsHash {
  private a = 0;
  private b = 0;

  /** Takes in run number `run`, whose trace has the hash `trace` (32 bits). */
  add(run: number, trace: number): void {
    const low = run | 0;
    const high = Math.floor(run / 4294967296);
    this.a = (this.a + mix(trace ^ mix(Math.imul(low, 0x9e3779b1) ^ high))) | 0;
    this.b = (this.b + mix((trace + 0x7f4a7c15) ^ mix((low ^ 0x5bd1e995) + Math.imul(high, 0x27d4eb2f)))) | 0;
  }

  /** Takes in the runs of another one, by its digest; no run may be in both. */
  merge(digest: string): void {
    this.a = (this.a + Number.parseInt(digest.slice(0, 8), 16)) | 0;
    this.b = (this.b + Number.parseInt(digest.slice(8), 16)) | 0;
  }

  /** 16 hexadecimal digits; zeros if there are no runs. */
  digest(): string {
    return hex(this.a) + hex(this.b);
  }
}
