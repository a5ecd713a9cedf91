import { existsSync, readdirSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';

/** The append-only file of a server in `folder`, with what of it a power failure would leave. */
export class AppendOnlyFile {
  readonly #folder: string;
  /** Sizes of the parts when they were last on disk for sure. */
  #synced = new Map<string, number>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Notes what is there as being on disk. */
  sync(): void {
    this.#synced = new Map(this.#parts().map((part) => [part, statSync(part).size]));
  }

  /** Cuts off what came after the last sync; before the first, that is everything. */
  loseTail(): void {
    for (const part of this.#parts()) truncateSync(part, Math.min(statSync(part).size, this.#synced.get(part) ?? 0));
  }

  /** The parts that writes are appended to: since Redis 7 there are several, of one generation each. */
  #parts(): string[] {
    const single = join(this.#folder, 'appendonly.aof');
    const folder = join(this.#folder, 'appendonlydir');
    const parts = existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : [];
    return [single, ...parts].filter(
      (part) => /(\.incr)?\.aof$/.test(part) && !/\.base\./.test(part) && existsSync(part),
    );
  }
}
