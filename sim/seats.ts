import { hasFencingTokens, lockPolicyOf } from '../deviations/index.js';
import type { ClientFactory, ClientHost, ClientProcess, ClientSlot } from './client-process.js';
import { type ArmExpiry, SimNode } from './node.js';
import { NodeList } from './node-list.js';
import { nodeName } from './node-name.js';
import type { RunContext } from './run-context.js';
import { type ClientView, clockOf, policyFor, type Setup } from './view.js';

const NO_VIEW: ClientView = {};

/** The nodes and clients of a world by their index: those of earlier runs are used again. */
export class Seats {
  private readonly nodes: SimNode[] = [];
  private readonly clients: ClientProcess[] = [];
  private readonly context: RunContext;
  private readonly host: ClientHost;
  private readonly armExpiry: ArmExpiry;
  private readonly seatClient: ClientFactory;

  constructor(context: RunContext, host: ClientHost, armExpiry: ArmExpiry, seatClient: ClientFactory) {
    this.context = context;
    this.host = host;
    this.armExpiry = armExpiry;
    this.seatClient = seatClient;
  }

  /** Fills these lists as a set-up says. */
  fill(setup: Setup, nodes: SimNode[], clients: ClientProcess[]): void {
    const { policy, cluster } = setup;
    while (nodes.length > cluster.nodes) nodes.pop();
    while (clients.length > setup.clients.length) clients.pop();
    const counts = hasFencingTokens(policy);
    for (let i = 0; i < cluster.nodes; i++) {
      const node = this.node(setup, i);
      if (counts) node.counter.begin(lockPolicyOf(policy).rules.scripts.counter);
      nodes[i] = node;
    }
    for (let i = 0; i < setup.clients.length; i++) clients[i] = this.client(setup, i);
  }

  private node(setup: Setup, index: number): SimNode {
    const { cluster } = setup;
    const { offsetUs, ratePpm } = clockOf(setup, nodeName(index));
    if (index === this.nodes.length) {
      this.nodes.push(new SimNode(index, cluster, this.context, this.armExpiry, offsetUs, ratePpm));
    } else this.nodes[index]?.reset(cluster, offsetUs, ratePpm);
    return this.nodes[index] as SimNode;
  }

  private client(setup: Setup, index: number): ClientProcess {
    const { context, host } = this;
    const name = setup.clients[index] ?? '?';
    const { nodes, keyPrefix = '' } = setup.views?.[index] ?? NO_VIEW;
    const count = setup.cluster.nodes;
    const list = nodes === undefined ? NodeList.all(count) : NodeList.named(count, nodes);
    const { offsetUs, ratePpm } = clockOf(setup, name);
    const policy = policyFor(setup, index);
    const slot: ClientSlot = { index, name, context, host, policy, list, keyPrefix, offsetUs, ratePpm };
    if (index === this.clients.length) this.clients.push(this.seatClient(slot));
    else this.clients[index]?.reset(slot);
    return this.clients[index] as ClientProcess;
  }
}
