import { propertyLabel } from '../report/index.js';
import type { TraceEvent } from '../sim/index.js';
import { printable } from '../text/printable.js';
import type { ClientViolation } from './judges/failure.js';
import { as, current } from './runtime/owner.js';

/** A run that is under way. */
export interface RunSoFar {
  /** The instant, µs of true time. */
  readonly nowUs: number;
  readonly trace: readonly TraceEvent[];
  /** What is known to be wrong already; more may be found at the end. */
  readonly violations: readonly ClientViolation[];
}

/** What a client prints with. */
const PRINTING = ['debug', 'error', 'info', 'log', 'warn'] as const;

const LONGEST_LINE = 120;

/**
 * Prints a run as it goes on, for a person who steps through a client: each event, and what the client prints, with virtual
 * time and process. An attached debugger stops where a violation is found.
 */
export class DebugLog {
  private readonly print: (line: string) => void = console.error.bind(console);
  private shown = 0;
  /** Violations that were shown. */
  private readonly told = new Set<string>();
  private run: RunSoFar | null = null;

  /** Has lines of the client begin with its process and the time. Gives what ends that. */
  start(): () => void {
    const natives = PRINTING.map((name) => [name, console[name]] as const);
    for (const [name, native] of natives) {
      console[name] = (...args: unknown[]) => {
        const { owner } = current;
        const { run } = this;
        if (owner === null || run === null) native.apply(console, args);
        else {
          // What has happened before comes first.
          as(null, () => this.show(run));
          native.call(console, `${this.place(owner.name)}  |`, ...args);
        }
      };
    }
    return () => {
      for (const [name, native] of natives) console[name] = native;
    };
  }

  private place(process: string, atUs: number = this.run?.nowUs ?? 0): string {
    return `${(atUs / 1000).toFixed(3).padStart(12)} ms  ${process.padEnd(3)}`;
  }

  /** An event has happened, with all that follows from it; library code comes next. */
  show(run: RunSoFar): void {
    this.run = run;
    const { trace, violations } = run;
    for (const event of trace.slice(this.shown))
      this.print(`${this.place(event.process, event.atUs)}  ${wordsOf(event)}`);
    this.shown = trace.length;
    for (const violation of violations) {
      const key = `${violation.property} ${violation.atUs} ${violation.detail}`;
      if (!this.told.has(key)) this.stop(violation);
      this.told.add(key);
    }
  }

  private stop({ property, detail, atUs }: ClientViolation): void {
    this.print(`${this.place('✗', atUs)}  ${propertyLabel(property)}: ${printable(detail, LONGEST_LINE)}`);
    // biome-ignore lint/suspicious/noDebugger: the user asked for it with `debug: true`
    debugger;
  }
}

function wordsOf({ kind, detail }: TraceEvent): string {
  const { said, node, client, answer, resources, reason } = detail;
  const words = [
    kind,
    said,
    resources,
    kind === 'execute' ? client && `of ${client}` : node && `${node}`,
    answer,
    reason,
  ];
  return printable(words.filter((it) => it !== undefined && it !== '').join('  '), LONGEST_LINE);
}
