import { existsSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ClockSetting } from './types.js';

/** The threaded build: redis-server has threads. */
const LIBRARY = 'libfaketimeMT.so.1';

/** The path of libfaketime, or `undefined` where it is not installed. */
export function findFaketime(
  roots: readonly string[] = ['/usr/lib', '/usr/local/lib', '/usr/lib64'],
): string | undefined {
  const folders = roots.flatMap((root) => [root, ...subfolders(root)]).map((folder) => join(folder, 'faketime'));
  return folders.map((folder) => join(folder, LIBRARY)).find((path) => existsSync(path));
}

function subfolders(folder: string): string[] {
  try {
    const entries = readdirSync(folder, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map((entry) => join(folder, entry.name));
  } catch {
    return [];
  }
}

/** The wall clock of one server process, through libfaketime: `file` tells the process what time it is. */
export class FakeClock {
  readonly #library: string;
  readonly #file: string;
  #setting: Required<ClockSetting> = { aheadMs: 0, rate: 1 };
  /** When the setting was made, and when the process began, which its rate counts from; ms. */
  #setAt = 0;
  #begunAt = 0;

  constructor(library: string, file: string) {
    this.#library = library;
    this.#file = file;
  }

  /** For a process that begins now. */
  environment(): Record<string, string> {
    this.#begunAt = performance.now();
    this.#write();
    return {
      // Without the second entry the first allocation of jemalloc hangs.
      LD_PRELOAD: `${this.#library} libc.so.6`,
      FAKETIME_TIMESTAMP_FILE: this.#file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    };
  }

  set({ aheadMs, rate = 1 }: ClockSetting): void {
    this.#setting = { aheadMs, rate };
    this.#setAt = performance.now();
    this.#write();
  }

  /** How far the clock is ahead of the machine's now, ms. */
  get aheadMs(): number {
    const { aheadMs, rate } = this.#setting;
    return aheadMs + (rate - 1) * (performance.now() - this.#setAt);
  }

  /** The library's time is `begin + offset + rate × (now − begin)`. */
  #write(): void {
    const { rate } = this.#setting;
    const offsetMs = this.aheadMs - (rate - 1) * (performance.now() - this.#begunAt);
    const text = `${offsetMs < 0 ? '-' : '+'}${(Math.abs(offsetMs) / 1000).toFixed(6)}${rate === 1 ? '' : ` x${rate}`}\n`;
    // In one piece, because the process reads it at any time.
    writeFileSync(`${this.#file}.new`, text);
    renameSync(`${this.#file}.new`, this.#file);
  }
}
