import { printable } from '../text/printable.js';
import { CLEAR_LINE, type Io } from './io.js';

/** One line on stderr that is written over and over; nothing at all where stderr is no terminal. */
export class ProgressLine {
  private readonly io: Io;
  private shown = false;

  constructor(io: Io) {
    this.io = io;
  }

  show(text: string): void {
    if (this.io.stderr.isTTY !== true) return;
    this.io.stderr.write(`${CLEAR_LINE}${printable(text, this.io.stderr.columns)}`);
    this.shown = true;
  }

  /** Removes it, so that what comes next has the line to itself. */
  end(): void {
    if (this.shown) this.io.stderr.write(CLEAR_LINE);
    this.shown = false;
  }
}
