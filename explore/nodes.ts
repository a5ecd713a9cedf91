import type { Command, Token } from '../core/index.js';
import { hasFencingTokens, lockPolicyOf, type Policy } from '../deviations/index.js';
import { type CounterState, StandaloneNode, trueTime } from '../sim/index.js';
import { Interner, Memo } from './interner.js';
import { type Commands, MOST_COMMANDS, type NumberedReply } from './links.js';

/** No token: nothing is stored. */
export const NOBODY = 0;

/** What one node is like: whose token it stores and for how long still, or how long it stays down. */
export interface NodeState {
  /** {@link NOBODY}, or what {@link Nodes.tokenOf} made of a client and its token. */
  readonly token: number;
  /** Ticks of the node's clock until the key is gone; 0 where nothing is stored. */
  readonly left: number;
  /** Ticks of the node's clock until it answers again; 0 while it does, -1 if it never will. */
  readonly down: number;
  /** Its fencing counter. */
  readonly counter: CounterState;
}

const KEYS = ['r'];

const EMPTY = { token: NOBODY, left: 0 } as const;

/** Among the restarts of a node, which are told apart by their delay + 2, the one with its first dump. */
const ROLLED_BACK = 0;

/** Before anything that was written. */
const NEVER = -1;

/**
 * What a node can be like, by number, and how that changes. What a command does is asked of the simulator's own node,
 * once for every node state and command.
 */
export class Nodes {
  private readonly nodes = new Interner<NodeState>('node states', 65_535);
  private readonly tokensPerClient: number;
  private readonly policy: Policy;
  private readonly commands: Commands;
  private readonly executed = new Memo();
  private readonly replies = new Memo();
  private readonly ticked = new Memo();
  private readonly renamedTo = new Memo();
  private readonly restarts = new Memo();

  constructor(policy: Policy, commands: Commands, tokensPerClient: number) {
    this.policy = policy;
    this.commands = commands;
    this.tokensPerClient = tokensPerClient;
    this.idOf({ ...EMPTY, down: 0, counter: this.atStart().counter.state });
  }

  at(id: number): NodeState {
    return this.nodes.at(id);
  }

  /** All that were met, in the order of their numbers. */
  get values(): readonly NodeState[] {
    return this.nodes.values;
  }

  /** The token that a client's attempt stores. A client numbers its tokens from 1. */
  tokenOf(client: number, token: number): number {
    return token === NOBODY ? NOBODY : client * this.tokensPerClient + token;
  }

  /** Carries out a command of a client: the node afterwards. */
  execute(id: number, client: number, command: number): number {
    const code = this.codeOf(client, command);
    const known = this.executed.get(id, code);
    if (known >= 0) return known;
    const { node, ...reply } = carryOut(this.policy, this.at(id), this.ownCommand(client, command));
    this.replies.set(id, code, this.commands.replyId({ ...reply, command }));
    return this.executed.set(id, code, this.idOf(node));
  }

  /** What it answers to that command, as a reply code. Only after {@link execute}. */
  answer(id: number, client: number, command: number): number {
    return this.replies.get(id, this.codeOf(client, command));
  }

  /** After this many ticks of its own clock. */
  after(id: number, ticks: number): number {
    const known = this.ticked.get(id, ticks);
    if (known >= 0) return known;
    const { token, left, down, counter } = this.at(id);
    const alive = left > ticks;
    return this.ticked.set(
      id,
      ticks,
      this.idOf({
        counter,
        token: alive ? token : NOBODY,
        left: alive ? left - ticks : 0,
        down: Math.max(Math.min(down, 0), down - ticks),
      }),
    );
  }

  /** Crashed, with everything it knew. */
  crashed(id: number, restartDelay: number | null): number {
    const down = restartDelay ?? -1;
    const known = this.restarts.get(id, down + 2);
    if (known >= 0) return known;
    return this.restarts.set(id, down + 2, this.idOf({ ...EMPTY, down, counter: this.restarted(id, false) }));
  }

  /** Another process in its place, with the dump that was made at the start. */
  rolledBack(id: number): number {
    const known = this.restarts.get(id, ROLLED_BACK);
    if (known >= 0) return known;
    return this.restarts.set(id, ROLLED_BACK, this.idOf({ ...EMPTY, down: 0, counter: this.restarted(id, true) }));
  }

  /** The counter of a new process, with the dump that was made at the start or with nothing. */
  private restarted(id: number, fromStart: boolean): CounterState {
    const { counter } = this.atStart();
    counter.state = this.at(id).counter;
    counter.restore(NEVER, fromStart, trueTime(0));
    return counter.state;
  }

  private atStart(): StandaloneNode {
    const node = new StandaloneNode('at');
    const { policy } = this;
    if (hasFencingTokens(policy)) node.counter.begin(lockPolicyOf(policy).rules.scripts.counter);
    return node;
  }

  /** The same with clients renumbered: `to[client]` is the new number of `client`. */
  renamed(id: number, to: readonly number[]): number {
    let code = 0;
    for (const client of to) code = code * 4 + client;
    const known = this.renamedTo.get(id, code);
    return known >= 0 ? known : this.renamedTo.set(id, code, this.rename(id, to));
  }

  /** Of which client the stored token is, and its number among that client's tokens, from 1. */
  ownerOf(id: number): { readonly client: number; readonly token: number } | null {
    const { token } = this.at(id);
    if (token === NOBODY) return null;
    const client = Math.floor((token - 1) / this.tokensPerClient);
    return { client, token: token - client * this.tokensPerClient };
  }

  /** The same with another token of the same client stored. */
  retold(id: number, client: number, token: number): number {
    return this.idOf({ ...this.at(id), token: this.tokenOf(client, token) });
  }

  private rename(id: number, to: readonly number[]): number {
    const node = this.at(id);
    const { token } = node;
    if (token === NOBODY) return id;
    const client = Math.floor((token - 1) / this.tokensPerClient);
    return this.idOf({ ...node, token: token + ((to[client] ?? client) - client) * this.tokensPerClient });
  }

  private codeOf(client: number, command: number): number {
    return client * MOST_COMMANDS + command;
  }

  private ownCommand(client: number, command: number): Command {
    const it = this.commands.at(command);
    return { ...it, token: this.tokenOf(client, it.token as number) as Token };
  }

  idOf(node: NodeState): number {
    const { token, left, down, counter } = node;
    const key = `${token} ${left} ${down} ${counter.value} ${counter.joining} ${counter.marks}`;
    return this.nodes.intern(key, node);
  }
}

/** What the simulator's node does with a command when it is like this, and what it answers. */
function carryOut(
  policy: Policy,
  { token, left, counter }: NodeState,
  command: Command,
): { readonly node: NodeState } & Pick<NumberedReply, 'answer' | 'counter'> {
  const node = new StandaloneNode('at');
  // Its keys are numbered by the tokens that it is given, so that what it stores reads as a number again.
  if (token !== NOBODY) {
    const stored = {
      operation: 'acquire',
      attempt: 0,
      round: 0,
      token: token as Token,
      ttlMs: left,
      counter: 0,
    } as const;
    node.execute(policy, stored, KEYS, 0);
  }
  node.counter.state = counter;
  const answer = node.execute(policy, command, KEYS, 0);
  const [key] = node.state(KEYS, 0);
  const after =
    key === null || key === undefined ? { token: NOBODY, left: 0 } : { token: Number(key.token), left: key.ttlMs };
  return { node: { ...after, down: 0, counter: node.counter.state }, answer, counter: node.counter.told };
}
