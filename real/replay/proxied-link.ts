import { createConnection, type Socket } from 'node:net';
import { addressText } from '../../scenarios/address.js';
import type { Fate, Schedule } from '../../scenarios/index.js';
import { type Reply, type Request, replyOf } from '../lock/parts.js';
import { type CommandFate, NodeProxy, RespCutter } from '../proxy/index.js';

/** The way to a node as clients use it. */
export type Channel = Pick<ProxiedLink, 'node' | 'send' | 'cut' | 'heal'>;

/** Who sent a command. Why no answer came, if none did, is not told: a lost message makes no sound. */
export interface Sender {
  /** Lets something happen to the client: at once, or when it is not frozen any more. */
  wake(what: () => void): void;
  /** Called by {@link Sender.wake}. */
  onReply(reply: Reply): void;
}

/**
 * The way between one client and one node, through a proxy of its own, that gives each message the fate which the schedule
 * has for it. Each command has a connection of its own, so that losing one does not hold up the next.
 */
export class ProxiedLink {
  readonly node: string;
  readonly #client: string;
  readonly #proxy: NodeProxy;
  readonly #fates: ReadonlyMap<string, Fate>;
  readonly #delayMs: number;
  /** Fates of commands that are on their way to the proxy, by what they say. */
  readonly #coming: Map<string, CommandFate[]>;
  readonly #sends = new Map<string, number>();
  readonly #resends = new Set<NodeJS.Timeout>();
  #requestCuts = 0;
  #replyCuts = 0;

  private constructor(
    client: string,
    node: string,
    schedule: Schedule,
    proxy: NodeProxy,
    coming: Map<string, CommandFate[]>,
  ) {
    this.#client = client;
    this.node = node;
    this.#proxy = proxy;
    this.#coming = coming;
    this.#fates = new Map(schedule.fates.map((fate) => [addressText(fate), fate]));
    const { delayUs, distances } = schedule.cluster;
    const own = distances.find((it) => it.client === client && it.node === node)?.delayUs ?? delayUs;
    this.#delayMs = extraMs(own);
  }

  static async open(client: string, node: string, url: string, schedule: Schedule): Promise<ProxiedLink> {
    const coming = new Map<string, CommandFate[]>();
    const { hostname: host, port } = new URL(url);
    const proxy = await NodeProxy.open({
      host,
      port: Number(port),
      ordered: schedule.cluster.link === 'fifo',
      fate: (words) => coming.get(words.join(' '))?.shift() ?? {},
    });
    return new ProxiedLink(client, node, schedule, proxy, coming);
  }

  /** Sends a command of a lock of the client. */
  send(asked: Request, lock: number, sender: Sender): void {
    const { operation, attempt, round } = asked.command;
    const words = asked.inFull;
    const base = { client: this.#client, lock, attempt, operation, round, node: this.node };
    const name = addressText({ ...base, direction: 'request' });
    const send = this.#sends.get(name) ?? 0;
    this.#sends.set(name, send + 1);
    const request = this.#fates.get(addressText({ ...base, direction: 'request', send }));
    // A reply to a copy has the number behind that.
    const reply = this.#fates.get(addressText({ ...base, direction: 'reply', send: 2 * send }));
    const text = [words.name, ...words.args].join(' ');
    const fates = this.#coming.get(text) ?? [];
    this.#coming.set(text, fates);
    fates.push({ request: this.#messageFate(request), reply: this.#messageFate(reply) });
    const socket = this.#ask(words.text, (reply) => sender.wake(() => sender.onReply(replyOf(asked.command, reply))));
    if (request?.resendAfterUs === undefined) return;
    // The connection breaks, and the client's library sends the command again over a new one.
    const timer = setTimeout(() => {
      this.#resends.delete(timer);
      sender.wake(() => {
        if (socket.destroyed) return;
        socket.destroy();
        this.send(asked, lock, sender);
      });
    }, request.resendAfterUs / 1000);
    this.#resends.add(timer);
  }

  /** Loses what is sent from now on in one direction, until {@link ProxiedLink.heal} is called as often. */
  cut(direction: 'request' | 'reply'): void {
    this.#change(direction, 1);
  }

  heal(direction: 'request' | 'reply'): void {
    this.#change(direction, -1);
  }

  close(): Promise<void> {
    for (const timer of this.#resends) clearTimeout(timer);
    return this.#proxy.close();
  }

  #change(direction: 'request' | 'reply', by: number): void {
    if (direction === 'request') this.#requestCuts += by;
    else this.#replyCuts += by;
    const [requests, replies] = [this.#requestCuts > 0, this.#replyCuts > 0];
    this.#proxy.drop(requests && replies ? 'both' : requests ? 'requests' : replies ? 'replies' : 'nothing');
  }

  #messageFate(fate: Fate | undefined): NonNullable<CommandFate['request']> {
    if (fate === undefined) return { delayMs: this.#delayMs };
    const { lost, delayUs, duplicateDelayUs } = fate;
    const delayMs = delayUs === undefined ? this.#delayMs : extraMs(delayUs);
    return {
      delayMs,
      ...(lost ? { lost } : {}),
      ...(duplicateDelayUs === undefined ? {} : { againAfterMs: Math.max(0, extraMs(duplicateDelayUs) - delayMs) }),
    };
  }

  #ask(command: string, onReply: (reply: unknown) => void): Socket {
    const socket = createConnection({ host: '127.0.0.1', port: this.#proxy.port, noDelay: true });
    const cutter = new RespCutter();
    socket.write(command);
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      const [reply] = cutter.push(chunk);
      if (reply === undefined) return;
      socket.destroy();
      onReply(readReply(reply));
    });
    return socket;
  }
}

/** What a proxy adds to the way, so that a message takes about as long as is written. */
function extraMs(delayUs: number): number {
  return delayUs <= 1_000 ? 0 : delayUs / 1000;
}

/** A reply as clients get it; an error is nothing that a lock may rely on. */
function readReply(reply: Buffer): unknown {
  const text = reply.toString('latin1').trim();
  if (text.startsWith('+')) return text.slice(1);
  if (text.startsWith(':')) return Number(text.slice(1));
  return text === '$-1' ? null : undefined;
}
