import type { Io } from './io.js';

const CLEAR = '\r\u001b[2K';

/** One line on stderr that is written over and over; nothing at all where stderr is no terminal. */
export class ProgressLine {
  private readonly io: Io;
  private shown = false;

  constructor(io: Io) {
    this.io = io;
  }

  show(text: string): void {
    if (this.io.stderr.isTTY !== true) return;
    this.io.stderr.write(`${CLEAR}${text}`);
    this.shown = true;
  }

  /** Removes it, so that what comes next has the line to itself. */
  end(): void {
    if (this.shown) this.io.stderr.write(CLEAR);
    this.shown = false;
  }
}
