import { localTime } from '../../core/index.js';
import type { Connection as Carrier, Control, Direction, Message } from '../../sim/index.js';
import { type SimNode, sentAgainUs } from '../../sim/index.js';
import type { Connection as ServerSide } from '../../wire/index.js';
import type { Site } from '../redis/node-keyspace.js';
import type { Server } from '../redis/server.js';
import { withoutStack } from '../runtime/without-stack.js';
import { shown, type Trouble } from './byte-log.js';

/** The client's end of a connection, as the world sees it. Each call is a read of the process that has opened it. */
export interface ClientEnd {
  connected(): void;
  received(bytes: string): void;
  /** The node sends nothing any more. */
  ended(): void;
  failed(error: Error): void;
}

/** What the client's end does with a connection. */
export interface Line {
  open(): void;
  write(bytes: string): void;
  /** The client writes though the connection is broken. */
  wroteInVain(bytes: string): void;
  finish(): void;
  close(): void;
}

/** What a connection needs of the process that opens it. */
export interface Opener {
  readonly index: number;
  lifeNow(): number;
  nowUs(): number;
  /** Runs library code as a part of this event. */
  enter(work: () => void): void;
  sendControl(control: Control, afterUs?: number): void;
  /** Sends again, over the connection of this message, what a node says without having been asked. */
  tell(message: Message, told: number): void;
  siteOf(node: SimNode): Site;
  /** Keeps what the process sees of a connection to this node, where that is for a report. */
  log(node: number, text: () => string, trouble: Trouble | null): void;
}

/** A node, and the server on it. */
interface Peer {
  readonly node: SimNode;
  readonly server: Server;
  /** Its machine is off, not only its process. */
  readonly isOff: boolean;
  readonly address: string;
}

/** The first time that a kernel sends a SYN again, µs (Linux). */
const FIRST_SYN_US = 1_000_000;

/** An error as Node has it. */
export function systemError(syscall: string, code: keyof typeof ERRNO, where?: string): Error {
  const message = [syscall, code, ...(where === undefined ? [] : [where])].join(' ');
  const error = withoutStack(() => new Error(message));
  return Object.assign(error, { errno: ERRNO[code], code, syscall });
}

const ERRNO = { ECONNREFUSED: -111, ECONNRESET: -104, ENOTFOUND: -3008 } as const;

/** A TCP connection from a simulated process to the server of a simulated node. */
export class Connection implements Carrier {
  readonly arrivals: Record<Direction, number> = { request: 0, reply: 0 };
  /** All that was written to it so far is its own bytes. */
  isAscii = true;
  private readonly opener: Opener;
  private readonly life: number;
  private readonly peer: Peer;
  private readonly end: ClientEnd;
  /** The client reads from it, and writes to it. */
  private isOpen = true;
  private serverSide: ServerSide | null = null;
  /** Which life of the node has accepted it. */
  private nodeLife = -1;
  private openedUs = 0;
  private tries = 0;
  /** What the server has sent, by number. */
  private readonly sent: string[] = [];
  private out = '';
  /** What was sent over it last: what the server says by itself goes by that. */
  private last: Message | null = null;
  private isExecuting = false;
  /** When the server looks at its clock for this connection, µs of that clock; -1 if it does not. */
  private wakesAtUs = -1;
  /** When something was sent last, and when that was of which a machine that is off did not hear, µs. */
  private sentUs = 0;
  private unheardUs: number | null = null;
  /** Of what clients send by themselves as they connect: what is not answered yet. */
  private greetings = 0;
  private hasCommands = false;
  private isConnected = false;
  /** Deliveries of what was sent over it while a command that came before waits. */
  private readonly waiting: (() => void)[] = [];
  private isDelivering = false;

  constructor(opener: Opener, peer: Peer, end: ClientEnd) {
    this.opener = opener;
    this.life = opener.lifeNow();
    this.peer = peer;
    this.end = end;
  }

  /** Sends a SYN. */
  open(): void {
    this.openedUs = this.opener.nowUs();
    this.log(() => 'connects');
    this.sendSyn(0);
  }

  private sendSyn(afterUs: number): void {
    this.control('request', true, () => this.asked(), afterUs);
  }

  private log(text: () => string, trouble: Trouble | null = null): void {
    this.opener.log(this.peer.node.index, text, trouble);
  }

  private asked(): void {
    const { node, isOff, address } = this.peer;
    if (!this.isOpen) return;
    if (isOff) {
      // Each time after twice as long.
      this.sendSyn(this.openedUs + FIRST_SYN_US * (2 ** ++this.tries - 1) - this.opener.nowUs());
      return;
    }
    if (node.down) {
      this.fails(Object.assign(systemError('connect', 'ECONNREFUSED', address), addressOf(address)));
      return;
    }
    this.nodeLife = node.life;
    const { server } = this.peer;
    this.serverSide = server.connect(
      this.opener.siteOf(node),
      (bytes) => this.wrote(bytes),
      () => this.closedByServer(),
    );
    this.control('reply', false, () =>
      this.read(() => {
        this.isConnected = true;
        this.end.connected();
      }),
    );
  }

  private control(direction: Direction, isForKernel: boolean, arrive: () => void, afterUs = 0): void {
    const { index: client } = this.opener;
    const control: Control = { connection: this, client, node: this.peer.node.index, direction, isForKernel, arrive };
    this.opener.sendControl(control, afterUs);
  }

  /** The process reads from the connection, unless it has closed it, or is another one by now. */
  private read(work: () => void): void {
    if (this.isReadable) this.opener.enter(work);
  }

  /** Whether the process that has opened it still reads from it. */
  get isReadable(): boolean {
    return this.isOpen && this.opener.lifeNow() === this.life;
  }

  private fails(error: Error): void {
    this.control('reply', true, () => this.failsNow(error));
  }

  private failsNow(error: Error): void {
    this.read(() => {
      this.log(() => `reads that it is broken: ${error.message}`, 'broken');
      this.isOpen = false;
      this.end.failed(error);
    });
  }

  private reset(): void {
    this.fails(systemError('read', 'ECONNRESET'));
  }

  // ——— what the client does ———

  /** The client has written its last; the server closes the connection when it reads that. */
  finish(): void {
    this.control('request', false, () => {
      const side = this.liveSide();
      if (side === null) return;
      side.lost();
      this.serverSide = null;
      this.closedByServer();
    });
  }

  /** The client has closed it, or its process is dead. */
  close(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.control('request', false, () => {
      this.liveSide()?.lost();
      this.serverSide = null;
    });
  }

  // ——— what the node does ———

  get isBroken(): boolean {
    return this.liveSide() === null;
  }

  /** The server's side, unless the process that has accepted it is gone. */
  private liveSide(): ServerSide | null {
    const { node } = this.peer;
    return node.life === this.nodeLife && !node.down ? this.serverSide : null;
  }

  get isWaiting(): boolean {
    const side = this.liveSide();
    return side !== null && (side.session.waiting !== null || (this.waiting.length > 0 && !this.isDelivering));
  }

  behind(deliver: () => void): void {
    this.waiting.push(deliver);
  }

  /** Delivers what has waited, in the order in which it came, until a command of it waits itself. */
  private deliver(): void {
    this.isDelivering = true;
    while (this.waiting.length > 0 && !this.isWaiting) this.waiting.shift()?.();
    this.isDelivering = false;
  }

  /** Requests have come to the node. Gives what it answers at once, by number; `null` for nothing. */
  execute(
    message: Message,
    requests: readonly (readonly string[])[],
    site: Site,
  ): { readonly told: number; readonly bytes: string } | null {
    this.last = message;
    const side = this.liveSide();
    if (side === null) return null;
    this.isExecuting = true;
    this.peer.server.receive(side, requests, site);
    this.isExecuting = false;
    this.wakeServer(side);
    return this.taken();
  }

  /** Has the server look at its clock when the command that waits on this connection has waited for long enough. */
  private wakeServer({ session }: ServerSide): void {
    const untilUs = session.waiting?.until ?? Number.POSITIVE_INFINITY;
    if (!Number.isFinite(untilUs) || this.wakesAtUs === untilUs) return;
    this.wakesAtUs = untilUs;
    const { opener, peer } = this;
    const { node, now } = opener.siteOf(peer.node);
    const afterUs = Math.max(1, node.clock.when(localTime(untilUs), now) - now);
    this.wakes(afterUs, () => {
      this.wakesAtUs = -1;
      const side = this.liveSide();
      if (side === null) return;
      peer.server.expireWaiting(opener.siteOf(peer.node));
      this.deliver();
      this.wakeServer(side);
    });
  }

  /** The node does something of itself. */
  private wakes(afterUs: number, arrive: () => void): void {
    const { opener, peer } = this;
    const { index: node } = peer.node;
    const control = { connection: this, client: opener.index, node, direction: 'request', arrive } as const;
    opener.sendControl({ ...control, isForKernel: false, isOfNode: true }, afterUs);
  }

  /** What an error of the node says, in the place of what was asked for. */
  answer(bytes: string): { readonly told: number; readonly bytes: string } | null {
    this.out += bytes;
    return this.taken();
  }

  private taken(): { readonly told: number; readonly bytes: string } | null {
    const { out } = this;
    if (out === '') return null;
    this.out = '';
    return { told: this.sent.push(out) - 1, bytes: out };
  }

  private wrote(bytes: string): void {
    this.out += bytes;
    if (this.isExecuting || this.last === null) return;
    const taken = this.taken();
    if (taken !== null) this.opener.tell(this.last, taken.told);
    if (this.waiting.length > 0) this.wakes(0, () => this.deliver());
  }

  private closedByServer(): void {
    this.serverSide = null;
    // Behind what the server answers in this instant.
    const ended = (): void => {
      this.log(() => 'reads that the node has closed it', 'broken');
      this.end.ended();
    };
    this.control('reply', true, () => this.read(ended), 1);
  }

  /** The client writes to it though it is broken. */
  wroteInVain(bytes: string): void {
    const said = (): string => shown(bytes.replaceAll(/[*$]\d+\r\n/g, ''));
    this.log(() => `writes to the broken connection, where it is lost: ${said()}`, 'lost');
  }

  /** Something is sent over it: by the client itself, or because somebody asked for it. */
  used(said: string, isGreeting: boolean): void {
    this.log(() => `writes  ${said}`);
    this.sentUs = this.opener.nowUs();
    if (isGreeting) this.greetings++;
    else this.hasCommands = true;
  }

  /** Whether a client could send something: it may keep that until its greetings are answered. */
  get isReady(): boolean {
    return this.isOpen && this.isConnected && this.greetings === 0;
  }

  /** Whether a client that is told to send something does so. */
  get isInUse(): boolean {
    return this.isReady && this.hasCommands;
  }

  /** What the server has sent arrives. */
  arrive(told: number, isOfGreeting: boolean): void {
    if (isOfGreeting) this.greetings--;
    const bytes = this.sent[told] ?? '';
    this.read(() => {
      this.log(() => `reads   ${shown(bytes)}`);
      this.end.received(bytes);
    });
  }

  // ——— what goes wrong ———

  breaks(): void {
    this.liveSide()?.lost();
    this.serverSide = null;
    this.nodeLife = -1;
    this.failsNow(systemError('read', 'ECONNRESET'));
  }

  unheard(): void {
    if (this.peer.isOff) this.unheardUs ??= this.sentUs;
    else this.reset();
  }

  /** The process of the node has died, and the machine closes its connections, unless that is off as well. */
  nodeDied(): void {
    if (this.serverSide === null) return;
    this.serverSide = null;
    if (!this.peer.isOff) this.closedByServer();
  }

  /** The machine of the node is on again, and knows nothing of the connection: what is sent to it again breaks it. */
  nodeIsBack(): void {
    if (this.unheardUs === null) return;
    const forUs = this.opener.nowUs() - this.unheardUs;
    this.unheardUs = null;
    this.control('request', true, () => this.reset(), sentAgainUs(forUs) - forUs);
  }
}

function addressOf(address: string): { address: string; port: number } {
  const [host = '', port = ''] = address.split(':');
  return { address: host, port: Number(port) };
}
