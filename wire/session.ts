import type { Protocol } from './resp.js';

/** A key that a connection watches. */
interface Watched {
  readonly database: number;
  readonly key: string;
}

/** A command that waits for one of its keys. */
export interface Waiting {
  readonly database: number;
  readonly keys: readonly string[];
  /** When it gives up, µs of the node's clock, or infinity. */
  readonly until: number;
  /** Tries again with a key that has changed; `false` as long as there is nothing for it. */
  readonly retry: (key: string) => boolean;
  /** Answers that the time is over. */
  readonly giveUp: () => void;
}

/** The transaction of a connection. */
interface Transaction {
  readonly commands: (readonly string[])[];
  /** A command was refused: `EXEC` will be, too. */
  failed: boolean;
}

/** What a server keeps of one connection. */
export class Session {
  readonly id: number;
  readonly address: string;
  name = '';
  libraryName = '';
  libraryVersion = '';
  protocol: Protocol = 2;
  database = 0;
  authenticated: boolean;
  user = 'default';
  transaction: Transaction | null = null;
  watched: Watched[] = [];
  /** A watched key was changed. */
  isStale = false;
  readonly channels: Set<string> = new Set();
  readonly patterns: Set<string> = new Set();
  readonly shardChannels: Set<string> = new Set();
  /** What `CLIENT REPLY` asked for; `skip-next` leaves out the answer after this one. */
  replies: 'on' | 'off' | 'skip' | 'skip-next' = 'on';
  waiting: Waiting | null = null;
  isClosing = false;
  noEvict = false;
  noTouch = false;
  lastCommand = 'NULL';
  /** What the commands of its scripts come over; made when one runs. */
  ofScripts: Session | null = null;
  readonly since: number;

  /** @param since - When it was opened, µs of the node's clock. */
  constructor(id: number, address: string, authenticated: boolean, since: number) {
    this.id = id;
    this.address = address;
    this.authenticated = authenticated;
    this.since = since;
  }

  get subscriptions(): number {
    return this.channels.size + this.patterns.size;
  }

  /** Whether only commands on subscriptions are allowed. */
  get isSubscriber(): boolean {
    return this.subscriptions + this.shardChannels.size > 0;
  }
}
