import { type Connection, type Edition, Server } from '../index.js';

/** A server with a clock in the test's hand. */
export class Bench {
  nowUs = 1_700_000_000_000_000;
  readonly server: Server;

  constructor(settings: { readonly edition?: Edition; readonly password?: string } = {}) {
    this.server = new Server({ now: () => this.nowUs, random: () => 0.5, ...settings });
  }

  connect(): Client {
    return new Client(this.server);
  }
}

/** A connection that keeps what it was sent. */
export class Client {
  received = '';
  closed = false;
  readonly connection: Connection;

  constructor(server: Server) {
    this.connection = server.connect(
      (bytes) => {
        this.received += bytes;
      },
      () => {
        this.closed = true;
      },
    );
  }

  /** Sends bytes, and takes what has come. */
  raw(bytes: string): string {
    this.received = '';
    this.connection.receive(bytes);
    return this.received;
  }

  ask(...argv: readonly string[]): string {
    return this.raw(`*${argv.length}\r\n${argv.map((it) => `$${it.length}\r\n${it}\r\n`).join('')}`);
  }
}
